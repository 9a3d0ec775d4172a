// A dense layer, with ReLU or without, and its gradients on one core, most of it from integers of
// 16 bits.
//
// TensorFlow takes one op each for rounding, the product, its rounding, bias and ReLU, and each
// reads and writes whole matrices. Here, factors are rounded while they are copied into the order
// in which the product reads them, and bias and ReLU are added before sums leave the registers.
//
// The integers count in units of the norm of their row or column. They cost half of a float32
// product, as bfloat16 does, and keep more digits, which the TD error needs, because it is a small
// difference of large values: vpdpwssd adds to each of 16 sums the products of two neighbouring
// factors. So both factors are packed as pairs, one uint32_t each, that are neighbours along the
// axis of summation; what is missing in the last pair is zero. The layer that reads observations
// has float32 products, and a single factor in place of each pair.
//
// Layer and batch normalization with ReLU are float32. TensorFlow takes a dozen ops for each and for
// its gradients; here a row, or a strip of columns, stays in the cache until it is done.

#include <immintrin.h>
#include <tensorflow/c/kernels.h>
#include <tensorflow/c/ops.h>
#include <tensorflow/c/tf_status.h>
#include <tensorflow/c/tf_tensor.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <new>

namespace {

constexpr int64_t kLanes = 16;  // float32 numbers in a register
constexpr int64_t kPanel = 2 * kLanes;  // columns of a product that are computed together,
constexpr int64_t kTileRows = 12;       // and rows: 24 of 32 registers hold sums
constexpr int64_t kPad = kLanes;  // keeps rows apart that would compete for the same cache lines
constexpr int kStrip = 4;  // registers side by side; rows of narrower strips are read more slowly

int64_t RoundUp(int64_t number, int64_t multiple) {
  return (number + multiple - 1) / multiple * multiple;
}

// The mask of the first `count` lanes, all if there are more.
__mmask16 Lanes(int64_t count) {
  return count >= kLanes ? 0xFFFF : count <= 0 ? 0 : static_cast<__mmask16>((1u << count) - 1);
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

// A matrix [rows, columns]. Its element (i, j) counts as zero where gate(i, j) <= 0.
struct Matrix {
  const float* data;
  int64_t rows, columns;
  const float* gate = nullptr;

  __m512 Load(int64_t row, int64_t column) const {
    const __mmask16 inside = row < rows ? Lanes(columns - column) : 0;
    const int64_t at = row * columns + column;
    const __m512 values = _mm512_maskz_loadu_ps(inside, data + at);
    if (gate == nullptr) return values;
    const __m512 gates = _mm512_maskz_loadu_ps(inside, gate + at);
    return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(gates, _mm512_setzero_ps(), _CMP_GT_OQ), values);
  }
};

// Integers of 16 bits, rounded to the nearest, and 16 sums of their products.
struct Int16 {
  using Sums = __m512i;

  static __m512i Round(__m512 low, __m512 high) {
    const __m256i low_half = _mm512_cvtepi32_epi16(_mm512_cvtps_epi32(low));
    const __m256i high_half = _mm512_cvtepi32_epi16(_mm512_cvtps_epi32(high));
    return _mm512_inserti64x4(_mm512_castsi256_si512(low_half), high_half, 1);
  }
  static Sums Add(Sums sums, __m512i left, __m512i right) {
    // The intrinsic makes GCC 12 copy the sums, some of them to memory, each time.
    asm("vpdpwssd %2, %1, %0" : "+v"(sums) : "v"(left), "v"(right));
    return sums;
  }
};

struct Float32 {
  using Sums = __m512;

  static Sums Add(Sums sums, __m512i left, __m512i right) {
    return _mm512_fmadd_ps(_mm512_castsi512_ps(left), _mm512_castsi512_ps(right), sums);
  }
};

// A row or column has this norm in its own units. So each integer fits into 16 bits, and a sum of
// products, by the inequality of Cauchy and Schwarz, into 32. Numbers below 1e-19, whose squares
// vanish, are too small to matter.
constexpr float kNorm = 32767;

__m512 UnitsFor(__m512 squares_of_norms) {
  return _mm512_sqrt_ps(squares_of_norms) / _mm512_set1_ps(kNorm);
}

// Where a norm is zero or not finite, all integers are zero, in a unit that is as well.
__m512 Inverses(__m512 units) {
  const __mmask16 have_one = _mm512_cmp_ps_mask(units, _mm512_setzero_ps(), _CMP_GT_OQ);
  return _mm512_maskz_div_ps(have_one, _mm512_set1_ps(1), units);
}

// Pairs of neighbours in a row, in its unit: packed[i * stride + j / 2].
int64_t PairsOfRow(int64_t columns) { return RoundUp(columns, 2 * kLanes) / 2; }

void PackRows(const Matrix& matrix, uint32_t* packed, int64_t stride, float* units) {
  for (int64_t row = 0; row < matrix.rows; ++row) {
    __m512 squares = _mm512_setzero_ps();
    for (int64_t column = 0; column < matrix.columns; column += kLanes) {
      const __m512 values = matrix.Load(row, column);
      squares = _mm512_fmadd_ps(values, values, squares);
    }
    const __m512 unit = UnitsFor(_mm512_set1_ps(_mm512_reduce_add_ps(squares)));
    const __m512 inverse = Inverses(unit);
    units[row] = _mm512_cvtss_f32(unit);
    for (int64_t column = 0; column < matrix.columns; column += 2 * kLanes) {
      const __m512 low = matrix.Load(row, column), high = matrix.Load(row, column + kLanes);
      _mm512_storeu_si512(packed + row * stride + column / 2,
                          Int16::Round(low * inverse, high * inverse));
    }
  }
}

// Pairs of neighbours in a column, in its unit, in panels of `width` columns one after another:
// panel[i / 2 * stride + j]. Adds up the columns in `sums`, if there is one.
int64_t PairsOfColumn(int64_t rows) { return (rows + 1) / 2; }

void PackColumns(const Matrix& matrix, uint32_t* packed, int64_t width, int64_t stride,
                 float* units, float* sums = nullptr) {
  alignas(64) static constexpr uint16_t kInterleave[] = {
      0, 16, 1, 17, 2,  18, 3,  19, 4,  20, 5,  21, 6,  22, 7,  23,
      8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
  const __m512i interleave = _mm512_load_si512(kInterleave);
  const int64_t pairs = PairsOfColumn(matrix.rows);
  for (int64_t first = 0; first < matrix.columns; first += kStrip * kLanes) {
    __m512 squares[kStrip] = {}, totals[kStrip] = {}, inverses[kStrip];
    for (int64_t row = 0; row < matrix.rows; ++row) {
      for (int i = 0; i < kStrip; ++i) {
        const __m512 values = matrix.Load(row, first + i * kLanes);
        squares[i] = _mm512_fmadd_ps(values, values, squares[i]);
        totals[i] += values;
      }
    }
    for (int i = 0; i < kStrip; ++i) {
      const int64_t column = first + i * kLanes;
      const __mmask16 inside = Lanes(matrix.columns - column);
      const __m512 units_of_lanes = UnitsFor(squares[i]);
      inverses[i] = Inverses(units_of_lanes);
      _mm512_mask_storeu_ps(units + column, inside, units_of_lanes);
      if (sums != nullptr) _mm512_mask_storeu_ps(sums + column, inside, totals[i]);
    }
    for (int64_t pair = 0; pair < pairs; ++pair) {
      for (int i = 0; i < kStrip; ++i) {
        const int64_t column = first + i * kLanes;
        if (column >= matrix.columns) break;
        uint32_t* panel = packed + column / width * pairs * stride;
        const __m512 upper = matrix.Load(2 * pair, column) * inverses[i];
        const __m512 lower = matrix.Load(2 * pair + 1, column) * inverses[i];
        _mm512_store_si512(panel + pair * stride + column % width,
                           _mm512_permutexvar_epi16(interleave, Int16::Round(upper, lower)));
      }
    }
  }
}

// Single numbers in panels of kPanel columns one after another.
void PackPanels(const Matrix& matrix, uint32_t* packed) {
  for (int64_t row = 0; row < matrix.rows; ++row) {
    for (int64_t column = 0; column < matrix.columns; column += kLanes) {
      uint32_t* panel = packed + column / kPanel * matrix.rows * kPanel;
      _mm512_store_si512(panel + row * kPanel + column % kPanel,
                         _mm512_castps_si512(matrix.Load(row, column)));
    }
  }
}

// Transposes a block of 16 x 16.
void Transpose(const uint32_t* from, int64_t from_stride, uint32_t* to, int64_t to_stride) {
  __m512i rows[16], halves[16];
  for (int i = 0; i < 16; ++i) rows[i] = _mm512_loadu_si512(from + i * from_stride);
  for (int i = 0; i < 16; i += 2) {
    halves[i] = _mm512_unpacklo_epi32(rows[i], rows[i + 1]);
    halves[i + 1] = _mm512_unpackhi_epi32(rows[i], rows[i + 1]);
  }
  // Then quarter l of rows[i + j] has column 4 l + j of the rows i to i + 3.
  for (int i = 0; i < 16; i += 4) {
    rows[i] = _mm512_unpacklo_epi64(halves[i], halves[i + 2]);
    rows[i + 1] = _mm512_unpackhi_epi64(halves[i], halves[i + 2]);
    rows[i + 2] = _mm512_unpacklo_epi64(halves[i + 1], halves[i + 3]);
    rows[i + 3] = _mm512_unpackhi_epi64(halves[i + 1], halves[i + 3]);
  }
  constexpr int kEven = 0x88, kOdd = 0xDD;  // quarters 0 and 2, or 1 and 3, of both
  for (int j = 0; j < 4; ++j) {
    const __m512i even = _mm512_shuffle_i32x4(rows[j], rows[4 + j], kEven);
    const __m512i odd = _mm512_shuffle_i32x4(rows[j], rows[4 + j], kOdd);
    const __m512i lower_even = _mm512_shuffle_i32x4(rows[8 + j], rows[12 + j], kEven);
    const __m512i lower_odd = _mm512_shuffle_i32x4(rows[8 + j], rows[12 + j], kOdd);
    uint32_t* column = to + j * to_stride;
    _mm512_storeu_si512(column, _mm512_shuffle_i32x4(even, lower_even, kEven));
    _mm512_storeu_si512(column + 4 * to_stride, _mm512_shuffle_i32x4(odd, lower_odd, kEven));
    _mm512_storeu_si512(column + 8 * to_stride, _mm512_shuffle_i32x4(even, lower_even, kOdd));
    _mm512_storeu_si512(column + 12 * to_stride, _mm512_shuffle_i32x4(odd, lower_odd, kOdd));
  }
}

// Packed left factor: the pairs of row i are at data[i * row_stride + pair * pair_stride].
struct Left {
  const uint32_t* data;
  int64_t row_stride, pair_stride;

  __m512i Broadcast(int64_t row, int64_t pair) const {
    uint32_t word;  // perhaps of a float
    std::memcpy(&word, data + row * row_stride + pair * pair_stride, sizeof(word));
    return _mm512_set1_epi32(word);
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
    __m512i right[2];
    for (int j = 0; j < 2; ++j) right[j] = _mm512_load_si512(panel + pair * kPanel + j * kLanes);
    for (int i = 0; i < kRows; ++i) {
      const __m512i factor = left.Broadcast(row + i, pair);
      for (int j = 0; j < 2; ++j) sums[i][j] = Number::Add(sums[i][j], factor, right[j]);
    }
  }
  const __mmask16 insides[2] = {Lanes(columns - column), Lanes(columns - column - kLanes)};
  // Where this is a loop, the sums are kept in memory, also while they are added up.
#pragma GCC unroll 12
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 2
    for (int j = 0; j < 2; ++j) {
      const __mmask16 inside = insides[j];
      _mm512_mask_storeu_ps(corner + i * columns + j * kLanes, inside,
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

thread_local Buffer<uint32_t> left_buffer, right_buffer, transposed_buffer;
thread_local Buffer<float> left_units_buffer, right_units_buffer;

// What sums of products of integers stand for, given the units.
struct InFloat32 {
  const float *row_units, *column_units;

  __m512 operator()(__m512i sums, int64_t row, int64_t column, __mmask16 inside) const {
    const __m512 units = _mm512_set1_ps(row_units[row]) *
                         _mm512_maskz_loadu_ps(inside, column_units + column);
    return _mm512_cvtepi32_ps(sums) * units;
  }
};

template <bool kHasRelu>
__m512 Activated(__m512 values) {
  if constexpr (!kHasRelu) return values;
  return _mm512_max_ps(_mm512_setzero_ps(), values);  // the second operand if one is NaN
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
  const auto finish = [=](__m512i sums, int64_t row, int64_t column, __mmask16 inside) {
    const __m512 biases = _mm512_maskz_loadu_ps(inside, bias + column);
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
  const auto finish = [=](__m512 sums, int64_t, int64_t column, __mmask16 inside) {
    const __m512 biases = _mm512_maskz_loadu_ps(inside, bias + column);
    return Activated<kHasRelu>(sums + biases);
  };
  Multiply<Float32>(left, right, kernel.rows, finish, outputs, inputs.rows, kernel.columns);
}

// gradient of the inputs [m, k] = upstream [m, n] kernel^T [n, k].
void InputGradient(const Matrix& upstream, const Matrix& kernel, float* gradient) {
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
void KernelGradient(const Matrix& inputs, const Matrix& upstream, float* gradient, float* bias) {
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

constexpr float kEpsilon = 1e-5f;       // is added to variances of rows,
constexpr float kBatchEpsilon = 1e-3f;  // and of columns

// Normalizes one row after another, each to mean 0 and variance 1.
struct Normalized {
  const Matrix& inputs;
  int64_t row;
  __m512 mean, inverse_deviation;

  Normalized(const Matrix& inputs, int64_t row) : inputs(inputs), row(row) {
    __m512 sums = _mm512_setzero_ps(), squares = _mm512_setzero_ps();
    for (int64_t column = 0; column < inputs.columns; column += kLanes) {
      sums += inputs.Load(row, column);
    }
    mean = _mm512_set1_ps(_mm512_reduce_add_ps(sums) / inputs.columns);
    for (int64_t column = 0; column < inputs.columns; column += kLanes) {
      const __m512 difference = Centered(column);
      squares = _mm512_fmadd_ps(difference, difference, squares);
    }
    const float variance = _mm512_reduce_add_ps(squares) / inputs.columns;
    inverse_deviation =
        _mm512_set1_ps(1) / _mm512_sqrt_ps(_mm512_set1_ps(variance + kEpsilon));
  }
  __m512 Centered(int64_t column) const {
    return _mm512_maskz_sub_ps(Lanes(inputs.columns - column), inputs.Load(row, column), mean);
  }
  __m512 operator()(int64_t column) const { return Centered(column) * inverse_deviation; }
};

// outputs [m, n] = relu(gamma [n] normalized inputs [m, n] + beta [n]).
void LayerNormRelu(const Matrix& inputs, const Matrix& gamma, const float* beta, float* outputs) {
  for (int64_t row = 0; row < inputs.rows; ++row) {
    const Normalized normalized(inputs, row);
    for (int64_t column = 0; column < inputs.columns; column += kLanes) {
      const __mmask16 inside = Lanes(inputs.columns - column);
      const __m512 betas = _mm512_maskz_loadu_ps(inside, beta + column);
      const __m512 values = _mm512_fmadd_ps(normalized(column), gamma.Load(0, column), betas);
      _mm512_mask_storeu_ps(outputs + row * inputs.columns + column, inside,
                            Activated<true>(values));
    }
  }
}

// gradients of inputs [m, n], gamma [n] and beta [n].
void LayerNormReluGradient(const Matrix& upstream, const Matrix& inputs, const Matrix& gamma,
                           float* gradient, float* gamma_gradient, float* beta_gradient) {
  const int64_t columns = inputs.columns;
  std::fill_n(gamma_gradient, columns, 0);
  std::fill_n(beta_gradient, columns, 0);
  const auto add = [](float* sums, __mmask16 inside, __m512 values) {
    _mm512_mask_storeu_ps(sums, inside, _mm512_maskz_loadu_ps(inside, sums) + values);
  };
  for (int64_t row = 0; row < inputs.rows; ++row) {
    const Normalized normalized(inputs, row);
    __m512 sums = _mm512_setzero_ps(), products = _mm512_setzero_ps();
    for (int64_t column = 0; column < columns; column += kLanes) {
      const __mmask16 inside = Lanes(columns - column);
      const __m512 passed = upstream.Load(row, column), values = normalized(column);
      const __m512 scaled = passed * gamma.Load(0, column);
      sums += scaled;
      products = _mm512_fmadd_ps(scaled, values, products);
      add(gamma_gradient + column, inside, passed * values);
      add(beta_gradient + column, inside, passed);
    }
    const __m512 mean = _mm512_set1_ps(_mm512_reduce_add_ps(sums) / columns);
    const __m512 slope = _mm512_set1_ps(_mm512_reduce_add_ps(products) / columns);
    for (int64_t column = 0; column < columns; column += kLanes) {
      const __m512 scaled = upstream.Load(row, column) * gamma.Load(0, column);
      const __m512 values = (scaled - mean - normalized(column) * slope) *
                            normalized.inverse_deviation;
      _mm512_mask_storeu_ps(gradient + row * columns + column, Lanes(columns - column), values);
    }
  }
}

// Calls visit(first column, lanes inside) for each strip of columns of a matrix.
template <typename Visit>
void ForEachStrip(int64_t columns, const Visit& visit) {
  for (int64_t first = 0; first < columns; first += kStrip * kLanes) {
    __mmask16 inside[kStrip];
    for (int i = 0; i < kStrip; ++i) inside[i] = Lanes(columns - first - i * kLanes);
    visit(first, inside);
  }
}

// outputs [m, n] = relu(gamma [n] (inputs [m, n] - mean [n]) / deviation + beta [n]) by the moments
// of each column, which are outputs, too.
void BatchNormRelu(const Matrix& inputs, const Matrix& gamma, const Matrix& beta, float* outputs,
                   float* mean, float* variance) {
  const __m512 num_rows = _mm512_set1_ps(inputs.rows), one = _mm512_set1_ps(1);
  ForEachStrip(inputs.columns, [&](int64_t first, const __mmask16* inside) {
    __m512 means[kStrip] = {}, variances[kStrip] = {}, scales[kStrip], offsets[kStrip];
    for (int64_t row = 0; row < inputs.rows; ++row) {
      for (int i = 0; i < kStrip; ++i) means[i] += inputs.Load(row, first + i * kLanes);
    }
    for (int i = 0; i < kStrip; ++i) means[i] /= num_rows;
    for (int64_t row = 0; row < inputs.rows; ++row) {
      for (int i = 0; i < kStrip; ++i) {
        const __m512 centered = inputs.Load(row, first + i * kLanes) - means[i];
        variances[i] = _mm512_fmadd_ps(centered, centered, variances[i]);
      }
    }
    for (int i = 0; i < kStrip; ++i) {
      const int64_t column = first + i * kLanes;
      variances[i] /= num_rows;
      scales[i] = gamma.Load(0, column) *
                  (one / _mm512_sqrt_ps(variances[i] + _mm512_set1_ps(kBatchEpsilon)));
      offsets[i] = beta.Load(0, column) - means[i] * scales[i];
      _mm512_mask_storeu_ps(mean + column, inside[i], means[i]);
      _mm512_mask_storeu_ps(variance + column, inside[i], variances[i]);
    }
    for (int64_t row = 0; row < inputs.rows; ++row) {
      for (int i = 0; i < kStrip; ++i) {
        const int64_t column = first + i * kLanes;
        const __m512 values =
            _mm512_fmadd_ps(inputs.Load(row, column), scales[i], offsets[i]);
        _mm512_mask_storeu_ps(outputs + row * inputs.columns + column, inside[i],
                              Activated<true>(values));
      }
    }
  });
}

// gradients of inputs [m, n], gamma [n] and beta [n], also by the moments.
void BatchNormReluGradient(const Matrix& upstream, const Matrix& inputs, const Matrix& gamma,
                           const Matrix& mean, const Matrix& variance, float* gradient,
                           float* gamma_gradient, float* beta_gradient) {
  const __m512 num_rows = _mm512_set1_ps(inputs.rows), one = _mm512_set1_ps(1);
  ForEachStrip(inputs.columns, [&](int64_t first, const __mmask16* inside) {
    __m512 means[kStrip], inverses[kStrip], sums[kStrip] = {}, products[kStrip] = {};
    for (int i = 0; i < kStrip; ++i) {
      const int64_t column = first + i * kLanes;
      means[i] = mean.Load(0, column);
      inverses[i] =
          one / _mm512_sqrt_ps(variance.Load(0, column) + _mm512_set1_ps(kBatchEpsilon));
    }
    const auto normalized = [&](int64_t row, int i) {
      return (inputs.Load(row, first + i * kLanes) - means[i]) * inverses[i];
    };
    for (int64_t row = 0; row < inputs.rows; ++row) {
      for (int i = 0; i < kStrip; ++i) {
        const __m512 passed = upstream.Load(row, first + i * kLanes);
        sums[i] += passed;
        products[i] = _mm512_fmadd_ps(passed, normalized(row, i), products[i]);
      }
    }
    for (int i = 0; i < kStrip; ++i) {
      _mm512_mask_storeu_ps(gamma_gradient + first + i * kLanes, inside[i], products[i]);
      _mm512_mask_storeu_ps(beta_gradient + first + i * kLanes, inside[i], sums[i]);
    }
    for (int64_t row = 0; row < inputs.rows; ++row) {
      for (int i = 0; i < kStrip; ++i) {
        const int64_t column = first + i * kLanes;
        const __m512 slope = (sums[i] + normalized(row, i) * products[i]) / num_rows;
        const __m512 values =
            (upstream.Load(row, column) - slope) * gamma.Load(0, column) * inverses[i];
        _mm512_mask_storeu_ps(gradient + row * inputs.columns + column, inside[i], values);
      }
    }
  });
}

// What follows connects this to TensorFlow.

struct DeleteStatus {
  void operator()(TF_Status* status) const { TF_DeleteStatus(status); }
};
struct DeleteTensor {
  void operator()(TF_Tensor* tensor) const { TF_DeleteTensor(tensor); }
};
using Status = std::unique_ptr<TF_Status, DeleteStatus>;
using Tensor = std::unique_ptr<TF_Tensor, DeleteTensor>;

// Inputs and outputs of one call. After the first failure the op has failed and `ok` is false.
class Call {
 public:
  explicit Call(TF_OpKernelContext* context) : context_(context), status_(TF_NewStatus()) {}

  // The input at `index`: a matrix, or a vector as a matrix of one row.
  Matrix Input(int index, int rank) {
    TF_Tensor* tensor = nullptr;
    TF_GetInput(context_, index, &tensor, status_.get());
    if (!Check(TF_GetCode(status_.get()) == TF_OK, nullptr)) return {};
    Tensor& input = tensors_[num_tensors_++];
    input.reset(tensor);
    if (!Check(TF_NumDims(tensor) == rank, "an input has the wrong rank")) return {};
    return {static_cast<const float*>(TF_TensorData(tensor)),
            rank == 2 ? TF_Dim(tensor, 0) : 1, TF_Dim(tensor, rank - 1)};
  }

  float* Output(int index, std::initializer_list<int64_t> shape) {
    if (!ok) return nullptr;
    int64_t size = 1;
    for (const int64_t length : shape) size *= length;
    TF_Tensor* tensor = TF_AllocateOutput(context_, index, TF_FLOAT, shape.begin(), shape.size(),
                                          size * sizeof(float), status_.get());
    Tensor& output = tensors_[num_tensors_++];
    output.reset(tensor);
    if (!Check(TF_GetCode(status_.get()) == TF_OK, nullptr)) return nullptr;
    return static_cast<float*>(TF_TensorData(tensor));
  }

  // Fails with `message`, or with the error that the status has, unless `condition`.
  bool Check(bool condition, const char* message) {
    if (!ok || condition) return ok;
    if (message != nullptr) TF_SetStatus(status_.get(), TF_INVALID_ARGUMENT, message);
    TF_OpKernelContext_Failure(context_, status_.get());
    return ok = false;
  }

  bool CheckSame(int64_t one, int64_t other) {
    return Check(one == other, "the shapes of the inputs do not fit each other");
  }

  bool ok = true;

 private:
  TF_OpKernelContext* context_;
  Status status_;
  Tensor tensors_[9];  // as many as an op has at most
  int num_tensors_ = 0;
};

template <void (*kLayer)(const Matrix&, const Matrix&, const float*, float*)>
void ComputeLayer(void*, TF_OpKernelContext* context) {
  Call call(context);
  const Matrix inputs = call.Input(0, 2), kernel = call.Input(1, 2), bias = call.Input(2, 1);
  call.CheckSame(inputs.columns, kernel.rows);
  call.CheckSame(kernel.columns, bias.columns);
  float* outputs = call.Output(0, {inputs.rows, kernel.columns});
  if (call.ok) kLayer(inputs, kernel, bias.data, outputs);
}

// The upstream gradient, which is input 0; zero where ReLU, whose outputs are input 2, gave zero.
template <bool kHasRelu>
Matrix Upstream(Call& call) {
  Matrix upstream = call.Input(0, 2);
  if constexpr (kHasRelu) {
    const Matrix outputs = call.Input(2, 2);
    call.CheckSame(upstream.rows, outputs.rows);
    call.CheckSame(upstream.columns, outputs.columns);
    upstream.gate = outputs.data;
  }
  return upstream;
}

template <bool kHasRelu>
void ComputeInputGradient(void*, TF_OpKernelContext* context) {
  Call call(context);
  const Matrix upstream = Upstream<kHasRelu>(call), kernel = call.Input(1, 2);
  call.CheckSame(upstream.columns, kernel.columns);
  float* gradient = call.Output(0, {upstream.rows, kernel.rows});
  if (call.ok) InputGradient(upstream, kernel, gradient);
}

template <bool kHasRelu>
void ComputeKernelGradient(void*, TF_OpKernelContext* context) {
  Call call(context);
  const Matrix upstream = Upstream<kHasRelu>(call), inputs = call.Input(1, 2);
  call.CheckSame(upstream.rows, inputs.rows);
  float* gradient = call.Output(0, {inputs.columns, upstream.columns});
  float* bias = call.Output(1, {upstream.columns});
  if (call.ok) KernelGradient(inputs, upstream, gradient, bias);
}

void ComputeLayerNormRelu(void*, TF_OpKernelContext* context) {
  Call call(context);
  const Matrix inputs = call.Input(0, 2), gamma = call.Input(1, 1), beta = call.Input(2, 1);
  call.CheckSame(inputs.columns, gamma.columns);
  call.CheckSame(inputs.columns, beta.columns);
  float* outputs = call.Output(0, {inputs.rows, inputs.columns});
  if (call.ok) LayerNormRelu(inputs, gamma, beta.data, outputs);
}

void ComputeLayerNormReluGradient(void*, TF_OpKernelContext* context) {
  Call call(context);
  const Matrix upstream = Upstream<true>(call), inputs = call.Input(1, 2), gamma = call.Input(3, 1);
  call.CheckSame(upstream.rows, inputs.rows);
  call.CheckSame(upstream.columns, inputs.columns);
  call.CheckSame(inputs.columns, gamma.columns);
  float* gradient = call.Output(0, {inputs.rows, inputs.columns});
  float* gamma_gradient = call.Output(1, {inputs.columns});
  float* beta_gradient = call.Output(2, {inputs.columns});
  if (call.ok) {
    LayerNormReluGradient(upstream, inputs, gamma, gradient, gamma_gradient, beta_gradient);
  }
}

void ComputeBatchNormRelu(void*, TF_OpKernelContext* context) {
  Call call(context);
  const Matrix inputs = call.Input(0, 2), gamma = call.Input(1, 1), beta = call.Input(2, 1);
  call.CheckSame(inputs.columns, gamma.columns);
  call.CheckSame(inputs.columns, beta.columns);
  float* outputs = call.Output(0, {inputs.rows, inputs.columns});
  float* mean = call.Output(1, {inputs.columns});
  float* variance = call.Output(2, {inputs.columns});
  if (call.ok) BatchNormRelu(inputs, gamma, beta, outputs, mean, variance);
}

void ComputeBatchNormReluGradient(void*, TF_OpKernelContext* context) {
  Call call(context);
  const Matrix upstream = Upstream<true>(call), inputs = call.Input(1, 2), gamma = call.Input(3, 1),
               mean = call.Input(4, 1), variance = call.Input(5, 1);
  call.CheckSame(upstream.rows, inputs.rows);
  for (const Matrix& other : {upstream, gamma, mean, variance}) {
    call.CheckSame(other.columns, inputs.columns);
  }
  float* gradient = call.Output(0, {inputs.rows, inputs.columns});
  float* gamma_gradient = call.Output(1, {inputs.columns});
  float* beta_gradient = call.Output(2, {inputs.columns});
  if (call.ok) {
    BatchNormReluGradient(upstream, inputs, gamma, mean, variance, gradient, gamma_gradient,
                          beta_gradient);
  }
}

void Register(const char* name, std::initializer_list<const char*> inputs,
              std::initializer_list<const char*> outputs,
              void (*compute)(void*, TF_OpKernelContext*)) {
  const Status status(TF_NewStatus());
  TF_OpDefinitionBuilder* op = TF_NewOpDefinitionBuilder(name);
  for (const char* input : inputs) TF_OpDefinitionBuilderAddInput(op, input);
  for (const char* output : outputs) TF_OpDefinitionBuilderAddOutput(op, output);
  TF_OpDefinitionBuilderSetShapeInferenceFunction(op, TF_ShapeInferenceContextSetUnknownShape);
  TF_RegisterOpDefinition(op, status.get());
  if (TF_GetCode(status.get()) != TF_OK) std::abort();  // the op's name or a spec is misspelt
  TF_KernelBuilder* kernel = TF_NewKernelBuilder(name, "CPU", nullptr, compute, nullptr);
  TF_RegisterKernelBuilder(name, kernel, status.get());
  if (TF_GetCode(status.get()) != TF_OK) std::abort();
}

const bool kAreRegistered = [] {
  Register("MatMulBiasRelu", {"inputs: float", "kernel: float", "bias: float"},
           {"outputs: float"}, ComputeLayer<Dense<true>>);
  Register("Float32MatMulBiasRelu", {"inputs: float", "kernel: float", "bias: float"},
           {"outputs: float"}, ComputeLayer<Float32Dense<true>>);
  Register("MatMulBiasReluInputGrad", {"upstream: float", "kernel: float", "outputs: float"},
           {"input_gradient: float"}, ComputeInputGradient<true>);
  Register("MatMulBiasReluKernelGrad", {"upstream: float", "inputs: float", "outputs: float"},
           {"kernel_gradient: float", "bias_gradient: float"}, ComputeKernelGradient<true>);
  Register("MatMulBias", {"inputs: float", "kernel: float", "bias: float"}, {"outputs: float"},
           ComputeLayer<Dense<false>>);
  Register("Float32MatMulBias", {"inputs: float", "kernel: float", "bias: float"},
           {"outputs: float"}, ComputeLayer<Float32Dense<false>>);
  Register("MatMulBiasInputGrad", {"upstream: float", "kernel: float"}, {"input_gradient: float"},
           ComputeInputGradient<false>);
  Register("MatMulBiasKernelGrad", {"upstream: float", "inputs: float"},
           {"kernel_gradient: float", "bias_gradient: float"}, ComputeKernelGradient<false>);
  Register("LayerNormRelu", {"inputs: float", "gamma: float", "beta: float"}, {"outputs: float"},
           ComputeLayerNormRelu);
  Register("LayerNormReluGrad",
           {"upstream: float", "inputs: float", "outputs: float", "gamma: float"},
           {"input_gradient: float", "gamma_gradient: float", "beta_gradient: float"},
           ComputeLayerNormReluGradient);
  Register("BatchNormRelu", {"inputs: float", "gamma: float", "beta: float"},
           {"outputs: float", "mean: float", "variance: float"}, ComputeBatchNormRelu);
  Register("BatchNormReluGrad",
           {"upstream: float", "inputs: float", "outputs: float", "gamma: float", "mean: float",
            "variance: float"},
           {"input_gradient: float", "gamma_gradient: float", "beta_gradient: float"},
           ComputeBatchNormReluGradient);
  return true;
}();

}  // namespace
