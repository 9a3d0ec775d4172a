// A matrix in memory, read by registers.

#ifndef TFAGENTS_SYSTEM_KERNELS_MATRIX_H_
#define TFAGENTS_SYSTEM_KERNELS_MATRIX_H_

#include <cstdint>

#include "registers.h"

namespace kernels {

constexpr int kStrip = 4;  // registers side by side; rows of narrower strips are read more slowly

// A matrix [rows, columns]. Its element (i, j) counts as zero where gate(i, j) <= 0.
struct Matrix {
  const float* data;
  int64_t rows, columns;
  const float* gate = nullptr;

  Floats Load(int64_t row, int64_t column) const {
    const Lanes inside = row < rows ? FirstLanes(columns - column) : 0;
    const int64_t at = row * columns + column;
    const Floats values = LoadFloats(inside, data + at);
    if (gate == nullptr) return values;
    return Where(LoadFloats(inside, gate + at), values);
  }
};

}  // namespace kernels

#endif  // TFAGENTS_SYSTEM_KERNELS_MATRIX_H_
