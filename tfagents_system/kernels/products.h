// Dense layers, with ReLU or without, and their gradients on one core, most of it from integers of
// 16 bits.
//
// TensorFlow takes one op each for rounding, the product, its rounding, bias and ReLU, and each
// reads and writes whole matrices. Here, factors are rounded while they are copied into the order
// in which the product reads them, and bias and ReLU are added before sums leave the registers.
//
// The integers count in units of the norm of their row or column. They cost half of a float32
// product, as bfloat16 does, and keep more digits, which the TD error needs, because it is a small
// difference of large values: an instruction adds to each sum the products of two neighbouring
// factors. So both factors are packed as pairs, one uint32_t each, that are neighbours along the
// axis of summation; what is missing in the last pair is zero. The layer that reads observations
// has float32 products, and a single factor in place of each pair.

#ifndef TFAGENTS_SYSTEM_KERNELS_PRODUCTS_H_
#define TFAGENTS_SYSTEM_KERNELS_PRODUCTS_H_

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>

#include "matrix.h"

namespace kernels {

constexpr int64_t kPanel = 2 * kLanes;  // columns of a product that are computed together
constexpr int64_t kPad = kLanes;  // keeps rows apart that would compete for the same cache lines

inline int64_t RoundUp(int64_t number, int64_t multiple) {
  return (number + multiple - 1) / multiple * multiple;
}

// A buffer that grows and stays, because each thread needs the same ones at each train step.
template <typename T>
class Buffer {
 public:
  T* OfSize(int64_t size) {
    if (size > size_) {
      const size_t bytes = RoundUp(size * sizeof(T), 64);
      data_.reset(static_cast<T*>(std::aligned_alloc(64, bytes)));
      if (data_ == nullptr) throw std::bad_alloc();
      std::fill_n(data_.get(), size, 0);
      size_ = size;
    }
    return data_.get();
  }

 private:
  struct Free {
    void operator()(void* data) const { std::free(data); }
  };
  std::unique_ptr<T, Free> data_;
  int64_t size_ = 0;
};

struct Int16 {
  using Sums = Words;

  static Sums Add(Sums sums, Words left, Words right) { return AddProducts(sums, left, right); }
};

struct Float32 {
  using Sums = Floats;

  static Sums Add(Sums sums, Words left, Words right) {
    return MultiplyAdd(AsFloats(left), AsFloats(right), sums);
  }
};

// A row or column has this norm in its own units. So each integer fits into 16 bits, and a sum of
// products, by the inequality of Cauchy and Schwarz, into 32. Numbers below 1e-19, whose squares
// vanish, are too small to matter.
constexpr float kNorm = 32767;

inline Floats UnitsFor(Floats squares) { return Sqrt(squares) / Broadcast(kNorm); }

// Where a norm is zero or not finite, all integers are zero, in a unit that is as well.
inline Floats Inverses(Floats units) { return Where(units, Broadcast(1) / units); }

// Pairs of neighbours in a row, in its unit: packed[i * stride + j / 2].
inline int64_t PairsOfRow(int64_t columns) { return RoundUp(columns, 2 * kLanes) / 2; }

inline void PackRows(const Matrix& matrix, uint32_t* packed, int64_t stride, float* units) {
  for (int64_t row = 0; row < matrix.rows; ++row) {
    Floats squares = Floats{};
    for (int64_t column = 0; column < matrix.columns; column += kLanes) {
      const Floats values = matrix.Load(row, column);
      squares = MultiplyAdd(values, values, squares);
    }
    const Floats unit = UnitsFor(Broadcast(Sum(squares)));
    const Floats inverse = Inverses(unit);
    units[row] = unit[0];
    for (int64_t column = 0; column < matrix.columns; column += 2 * kLanes) {
      const Floats low = matrix.Load(row, column), high = matrix.Load(row, column + kLanes);
      StoreWords(packed + row * stride + column / 2, RoundSequence(low * inverse, high * inverse));
    }
  }
}

// Pairs of neighbours in a column, in its unit, in panels of `width` columns one after another:
// panel[i / 2 * stride + j]. Adds up the columns in `sums`, if there is one.
inline int64_t PairsOfColumn(int64_t rows) { return (rows + 1) / 2; }

inline void PackColumns(const Matrix& matrix, uint32_t* packed, int64_t width, int64_t stride,
                 float* units, float* sums = nullptr) {
  const int64_t pairs = PairsOfColumn(matrix.rows);
  for (int64_t first = 0; first < matrix.columns; first += kStrip * kLanes) {
    Floats squares[kStrip] = {}, totals[kStrip] = {}, inverses[kStrip];
    for (int64_t row = 0; row < matrix.rows; ++row) {
      for (int i = 0; i < kStrip; ++i) {
        const Floats values = matrix.Load(row, first + i * kLanes);
        squares[i] = MultiplyAdd(values, values, squares[i]);
        totals[i] += values;
      }
    }
    for (int i = 0; i < kStrip; ++i) {
      const int64_t column = first + i * kLanes;
      const Lanes inside = FirstLanes(matrix.columns - column);
      const Floats units_of_lanes = UnitsFor(squares[i]);
      inverses[i] = Inverses(units_of_lanes);
      StoreFloats(inside, units + column, units_of_lanes);
      if (sums != nullptr) StoreFloats(inside, sums + column, totals[i]);
    }
    for (int64_t pair = 0; pair < pairs; ++pair) {
      for (int i = 0; i < kStrip; ++i) {
        const int64_t column = first + i * kLanes;
        if (column >= matrix.columns) break;
        uint32_t* panel = packed + column / width * pairs * stride;
        const Floats upper = matrix.Load(2 * pair, column) * inverses[i];
        const Floats lower = matrix.Load(2 * pair + 1, column) * inverses[i];
        StoreWords(panel + pair * stride + column % width, RoundPairs(upper, lower));
      }
    }
  }
}

// Single numbers in panels of kPanel columns one after another.
inline void PackPanels(const Matrix& matrix, uint32_t* packed) {
  for (int64_t row = 0; row < matrix.rows; ++row) {
    for (int64_t column = 0; column < matrix.columns; column += kLanes) {
      uint32_t* panel = packed + column / kPanel * matrix.rows * kPanel;
      StoreWords(panel + row * kPanel + column % kPanel, AsWords(matrix.Load(row, column)));
    }
  }
}

// Packed left factor: the pairs of row i are at data[i * row_stride + pair * pair_stride].
struct Left {
  const uint32_t* data;
  int64_t row_stride, pair_stride;

  Words Broadcast(int64_t row, int64_t pair) const {
    uint32_t word;  // perhaps of a float
    std::memcpy(&word, data + row * row_stride + pair * pair_stride, sizeof(word));
    return BroadcastWord(word);
  }
};

// One tile of left right, of rows from `row` and columns from `column`: `finish` turns sums into
// what is stored in `product` [rows, columns].
template <typename Number, int kRows, typename Finish>
void MultiplyTile(const Left& left, int64_t row, const uint32_t* panel, int64_t pairs,
                  const Finish& finish, int64_t column, int64_t columns, float* product) {
  float* corner = product + row * columns + column;
  typename Number::Sums sums[kRows][2];
  for (int j = 0; j < 2; ++j) {
    for (int i = 0; i < kRows; ++i) {
      sums[i][j] = typename Number::Sums{};
      __builtin_prefetch(corner + i * columns + j * kLanes, /*rw=*/1);  // for the stores below
    }
  }
  for (int64_t pair = 0; pair < pairs; ++pair) {
    Words right[2];
    for (int j = 0; j < 2; ++j) right[j] = LoadWords(panel + pair * kPanel + j * kLanes);
    for (int i = 0; i < kRows; ++i) {
      const Words factor = left.Broadcast(row + i, pair);
      for (int j = 0; j < 2; ++j) sums[i][j] = Number::Add(sums[i][j], factor, right[j]);
    }
  }
  const Lanes insides[2] = {FirstLanes(columns - column), FirstLanes(columns - column - kLanes)};
  // Where this is a loop, the sums are kept in memory, also while they are added up.
#pragma GCC unroll 12
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 2
    for (int j = 0; j < 2; ++j) {
      const Lanes inside = insides[j];
      StoreFloats(inside, corner + i * columns + j * kLanes,
                  finish(sums[i][j], row + i, column + j * kLanes, inside));
    }
  }
}

template <typename Number, int kRows, typename Finish>
void MultiplyLastRows(int64_t num_rows, const Left& left, int64_t row, const uint32_t* panel,
                      int64_t pairs, const Finish& finish, int64_t column, int64_t columns,
                      float* product) {
  if constexpr (kRows > 0) {
    if (num_rows == kRows) {
      MultiplyTile<Number, kRows>(left, row, panel, pairs, finish, column, columns, product);
    } else {
      MultiplyLastRows<Number, kRows - 1>(num_rows, left, row, panel, pairs, finish, column,
                                          columns, product);
    }
  }
}

// product [rows, columns] = finish(left right); `right` is packed in panels.
template <typename Number, typename Finish>
void Multiply(const Left& left, const uint32_t* right, int64_t pairs, const Finish& finish,
              float* product, int64_t rows, int64_t columns) {
  for (int64_t column = 0; column < columns; column += kPanel, right += pairs * kPanel) {
    int64_t row = 0;
    for (; row + kTileRows <= rows; row += kTileRows) {
      MultiplyTile<Number, kTileRows>(left, row, right, pairs, finish, column, columns, product);
    }
    MultiplyLastRows<Number, kTileRows - 1>(rows - row, left, row, right, pairs, finish, column,
                                            columns, product);
  }
}

inline thread_local Buffer<uint32_t> left_buffer, right_buffer, transposed_buffer;
inline thread_local Buffer<float> left_units_buffer, right_units_buffer;

// What sums of products of integers stand for, given the units.
struct InFloat32 {
  const float *row_units, *column_units;

  Floats operator()(Words sums, int64_t row, int64_t column, Lanes inside) const {
    const Floats units = Broadcast(row_units[row]) * LoadFloats(inside, column_units + column);
    return ToFloats(sums) * units;
  }
};

template <bool kHasRelu>
Floats Activated(Floats values) {
  if constexpr (!kHasRelu) return values;
  return Relu(values);
}

// outputs [m, n] = inputs [m, k] kernel [k, n] + bias [n], or ReLU of that.
template <bool kHasRelu>
void Dense(const Matrix& inputs, const Matrix& kernel, const float* bias, float* outputs) {
  const int64_t stride = PairsOfRow(inputs.columns) + kPad, pairs = PairsOfColumn(kernel.rows);
  uint32_t* left = left_buffer.OfSize(inputs.rows * stride);
  uint32_t* right = right_buffer.OfSize(pairs * RoundUp(kernel.columns, kPanel));
  float* left_units = left_units_buffer.OfSize(inputs.rows);
  float* right_units = right_units_buffer.OfSize(kernel.columns);
  PackRows(inputs, left, stride, left_units);
  PackColumns(kernel, right, kPanel, kPanel, right_units);
  const InFloat32 in_float32 = {left_units, right_units};
  const auto finish = [=](Words sums, int64_t row, int64_t column, Lanes inside) {
    const Floats biases = LoadFloats(inside, bias + column);
    return Activated<kHasRelu>(in_float32(sums, row, column, inside) + biases);
  };
  Multiply<Int16>({left, stride, 1}, right, pairs, finish, outputs, inputs.rows, kernel.columns);
}

// The same from float32 numbers.
template <bool kHasRelu>
void Float32Dense(const Matrix& inputs, const Matrix& kernel, const float* bias, float* outputs) {
  const Left left = {reinterpret_cast<const uint32_t*>(inputs.data), inputs.columns, 1};
  uint32_t* right = right_buffer.OfSize(kernel.rows * RoundUp(kernel.columns, kPanel));
  PackPanels(kernel, right);
  const auto finish = [=](Floats sums, int64_t, int64_t column, Lanes inside) {
    const Floats biases = LoadFloats(inside, bias + column);
    return Activated<kHasRelu>(sums + biases);
  };
  Multiply<Float32>(left, right, kernel.rows, finish, outputs, inputs.rows, kernel.columns);
}

// gradient of the inputs [m, k] = upstream [m, n] kernel^T [n, k].
inline void InputGradient(const Matrix& upstream, const Matrix& kernel, float* gradient) {
  const int64_t pairs = PairsOfRow(kernel.columns), stride = pairs + kPad;
  uint32_t* left = left_buffer.OfSize(upstream.rows * stride);
  uint32_t* right = right_buffer.OfSize(pairs * RoundUp(kernel.rows, kPanel));
  uint32_t* rows = transposed_buffer.OfSize(RoundUp(kernel.rows, kLanes) * stride);
  float* left_units = left_units_buffer.OfSize(upstream.rows);
  float* right_units = right_units_buffer.OfSize(kernel.rows);
  PackRows(upstream, left, stride, left_units);
  PackRows(kernel, rows, stride, right_units);
  for (int64_t row = 0; row < kernel.rows; row += kLanes) {
    uint32_t* panel = right + row / kPanel * pairs * kPanel + row % kPanel;
    for (int64_t pair = 0; pair < pairs; pair += kLanes) {
      Transpose(rows + row * stride + pair, stride, panel + pair * kPanel, kPanel);
    }
  }
  const InFloat32 in_float32 = {left_units, right_units};
  Multiply<Int16>({left, stride, 1}, right, pairs, in_float32, gradient, upstream.rows,
                  kernel.rows);
}

// gradients of the kernel [k, n] = inputs^T [k, m] upstream [m, n], and of the bias.
inline void KernelGradient(const Matrix& inputs, const Matrix& upstream, float* gradient,
                           float* bias) {
  const int64_t width = RoundUp(inputs.columns, kLanes), stride = width + kPad;
  const int64_t pairs = PairsOfColumn(inputs.rows);
  uint32_t* left = left_buffer.OfSize(pairs * stride);
  uint32_t* right = right_buffer.OfSize(pairs * RoundUp(upstream.columns, kPanel));
  float* left_units = left_units_buffer.OfSize(inputs.columns);
  float* right_units = right_units_buffer.OfSize(upstream.columns);
  PackColumns(inputs, left, width, stride, left_units);
  PackColumns(upstream, right, kPanel, kPanel, right_units, bias);
  const InFloat32 in_float32 = {left_units, right_units};
  Multiply<Int16>({left, 1, stride}, right, pairs, in_float32, gradient, inputs.columns,
                  upstream.columns);
}

}  // namespace kernels

#endif  // TFAGENTS_SYSTEM_KERNELS_PRODUCTS_H_
