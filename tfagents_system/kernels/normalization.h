// Layer and batch normalization with ReLU, and their gradients, in float32 on one core.
//
// TensorFlow takes a dozen ops for each and for its gradients; here a row, or a strip of columns,
// stays in the cache until it is done.

#ifndef TFAGENTS_SYSTEM_KERNELS_NORMALIZATION_H_
#define TFAGENTS_SYSTEM_KERNELS_NORMALIZATION_H_

#include <algorithm>
#include <cstdint>

#include "matrix.h"

namespace kernels {

constexpr float kEpsilon = 1e-5f;       // is added to variances of rows,
constexpr float kBatchEpsilon = 1e-3f;  // and of columns

// Normalizes one row after another, each to mean 0 and variance 1.
struct Normalized {
  const Matrix& inputs;
  int64_t row;
  Floats mean, inverse_deviation;

  Normalized(const Matrix& inputs, int64_t row) : inputs(inputs), row(row) {
    Floats sums = Floats{}, squares = Floats{};
    for (int64_t column = 0; column < inputs.columns; column += kLanes) {
      sums += inputs.Load(row, column);
    }
    mean = Broadcast(Sum(sums) / inputs.columns);
    for (int64_t column = 0; column < inputs.columns; column += kLanes) {
      const Floats difference = Centered(column);
      squares = MultiplyAdd(difference, difference, squares);
    }
    const float variance = Sum(squares) / inputs.columns;
    inverse_deviation = Broadcast(1) / Sqrt(Broadcast(variance + kEpsilon));
  }
  Floats Centered(int64_t column) const {
    return Inside(FirstLanes(inputs.columns - column), inputs.Load(row, column) - mean);
  }
  Floats operator()(int64_t column) const { return Centered(column) * inverse_deviation; }
};

// outputs [m, n] = relu(gamma [n] normalized inputs [m, n] + beta [n]).
inline void LayerNormRelu(const Matrix& inputs, const Matrix& gamma, const float* beta,
                          float* outputs) {
  for (int64_t row = 0; row < inputs.rows; ++row) {
    const Normalized normalized(inputs, row);
    for (int64_t column = 0; column < inputs.columns; column += kLanes) {
      const Lanes inside = FirstLanes(inputs.columns - column);
      const Floats betas = LoadFloats(inside, beta + column);
      const Floats values = MultiplyAdd(normalized(column), gamma.Load(0, column), betas);
      StoreFloats(inside, outputs + row * inputs.columns + column, Relu(values));
    }
  }
}

// gradients of inputs [m, n], gamma [n] and beta [n].
inline void LayerNormReluGradient(const Matrix& upstream, const Matrix& inputs,
                                  const Matrix& gamma, float* gradient, float* gamma_gradient,
                                  float* beta_gradient) {
  const int64_t columns = inputs.columns;
  std::fill_n(gamma_gradient, columns, 0);
  std::fill_n(beta_gradient, columns, 0);
  const auto add = [](float* sums, Lanes inside, Floats values) {
    StoreFloats(inside, sums, LoadFloats(inside, sums) + values);
  };
  for (int64_t row = 0; row < inputs.rows; ++row) {
    const Normalized normalized(inputs, row);
    Floats sums = Floats{}, products = Floats{};
    for (int64_t column = 0; column < columns; column += kLanes) {
      const Lanes inside = FirstLanes(columns - column);
      const Floats passed = upstream.Load(row, column), values = normalized(column);
      const Floats scaled = passed * gamma.Load(0, column);
      sums += scaled;
      products = MultiplyAdd(scaled, values, products);
      add(gamma_gradient + column, inside, passed * values);
      add(beta_gradient + column, inside, passed);
    }
    const Floats mean = Broadcast(Sum(sums) / columns);
    const Floats slope = Broadcast(Sum(products) / columns);
    for (int64_t column = 0; column < columns; column += kLanes) {
      const Floats scaled = upstream.Load(row, column) * gamma.Load(0, column);
      const Floats values = (scaled - mean - normalized(column) * slope) *
                            normalized.inverse_deviation;
      StoreFloats(FirstLanes(columns - column), gradient + row * columns + column, values);
    }
  }
}

// Calls visit(first column, lanes inside) for each strip of columns of a matrix.
template <typename Visit>
void ForEachStrip(int64_t columns, const Visit& visit) {
  for (int64_t first = 0; first < columns; first += kStrip * kLanes) {
    Lanes inside[kStrip];
    for (int i = 0; i < kStrip; ++i) inside[i] = FirstLanes(columns - first - i * kLanes);
    visit(first, inside);
  }
}

// outputs [m, n] = relu(gamma [n] (inputs [m, n] - mean [n]) / deviation + beta [n]) by the moments
// of each column, which are outputs, too.
inline void BatchNormRelu(const Matrix& inputs, const Matrix& gamma, const Matrix& beta,
                          float* outputs, float* mean, float* variance) {
  const Floats num_rows = Broadcast(inputs.rows), one = Broadcast(1);
  ForEachStrip(inputs.columns, [&](int64_t first, const Lanes* inside) {
    Floats means[kStrip] = {}, variances[kStrip] = {}, scales[kStrip], offsets[kStrip];
    for (int64_t row = 0; row < inputs.rows; ++row) {
      for (int i = 0; i < kStrip; ++i) means[i] += inputs.Load(row, first + i * kLanes);
    }
    for (int i = 0; i < kStrip; ++i) means[i] /= num_rows;
    for (int64_t row = 0; row < inputs.rows; ++row) {
      for (int i = 0; i < kStrip; ++i) {
        const Floats centered = inputs.Load(row, first + i * kLanes) - means[i];
        variances[i] = MultiplyAdd(centered, centered, variances[i]);
      }
    }
    for (int i = 0; i < kStrip; ++i) {
      const int64_t column = first + i * kLanes;
      variances[i] /= num_rows;
      scales[i] = gamma.Load(0, column) * (one / Sqrt(variances[i] + Broadcast(kBatchEpsilon)));
      offsets[i] = beta.Load(0, column) - means[i] * scales[i];
      StoreFloats(inside[i], mean + column, means[i]);
      StoreFloats(inside[i], variance + column, variances[i]);
    }
    for (int64_t row = 0; row < inputs.rows; ++row) {
      for (int i = 0; i < kStrip; ++i) {
        const int64_t column = first + i * kLanes;
        const Floats values = MultiplyAdd(inputs.Load(row, column), scales[i], offsets[i]);
        StoreFloats(inside[i], outputs + row * inputs.columns + column, Relu(values));
      }
    }
  });
}

// gradients of inputs [m, n], gamma [n] and beta [n], also by the moments.
inline void BatchNormReluGradient(const Matrix& upstream, const Matrix& inputs,
                                  const Matrix& gamma, const Matrix& mean, const Matrix& variance,
                                  float* gradient, float* gamma_gradient, float* beta_gradient) {
  const Floats num_rows = Broadcast(inputs.rows), one = Broadcast(1);
  ForEachStrip(inputs.columns, [&](int64_t first, const Lanes* inside) {
    Floats means[kStrip], inverses[kStrip], sums[kStrip] = {}, products[kStrip] = {};
    for (int i = 0; i < kStrip; ++i) {
      const int64_t column = first + i * kLanes;
      means[i] = mean.Load(0, column);
      inverses[i] = one / Sqrt(variance.Load(0, column) + Broadcast(kBatchEpsilon));
    }
    const auto normalized = [&](int64_t row, int i) {
      return (inputs.Load(row, first + i * kLanes) - means[i]) * inverses[i];
    };
    for (int64_t row = 0; row < inputs.rows; ++row) {
      for (int i = 0; i < kStrip; ++i) {
        const Floats passed = upstream.Load(row, first + i * kLanes);
        sums[i] += passed;
        products[i] = MultiplyAdd(passed, normalized(row, i), products[i]);
      }
    }
    for (int i = 0; i < kStrip; ++i) {
      StoreFloats(inside[i], gamma_gradient + first + i * kLanes, products[i]);
      StoreFloats(inside[i], beta_gradient + first + i * kLanes, sums[i]);
    }
    for (int64_t row = 0; row < inputs.rows; ++row) {
      for (int i = 0; i < kStrip; ++i) {
        const int64_t column = first + i * kLanes;
        const Floats slope = (sums[i] + normalized(row, i) * products[i]) / num_rows;
        const Floats values =
            (upstream.Load(row, column) - slope) * gamma.Load(0, column) * inverses[i];
        StoreFloats(inside[i], gradient + row * inputs.columns + column, values);
      }
    }
  });
}

}  // namespace kernels

#endif  // TFAGENTS_SYSTEM_KERNELS_NORMALIZATION_H_
