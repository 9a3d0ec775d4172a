// A register of float32 numbers or of pairs of integers of 16 bits, and the operations on it.
//
// Two sets of instructions have the same functions here: AVX-512 with VNNI, whose registers hold 16
// numbers, and AVX2 with FMA, whose registers hold 8. Nothing else depends on the set.

#ifndef TFAGENTS_SYSTEM_KERNELS_REGISTERS_H_
#define TFAGENTS_SYSTEM_KERNELS_REGISTERS_H_

#include <immintrin.h>

#include <cstdint>

namespace kernels {

#ifdef __AVX512VNNI__

using Floats = __m512;
using Words = __m512i;  // 32 bits each: an integer, or a pair of integers of 16 bits
using Lanes = __mmask16;

constexpr int64_t kLanes = 16;     // numbers in a register
constexpr int64_t kTileRows = 12;  // rows of a product that are computed together, in two columns
                                   // of registers: 24 of 32 registers hold sums

// The first `count` lanes, all if there are more.
inline Lanes FirstLanes(int64_t count) {
  return count >= kLanes ? 0xFFFF : count <= 0 ? 0 : static_cast<Lanes>((1u << count) - 1);
}

inline Floats Broadcast(float value) { return _mm512_set1_ps(value); }
inline Words BroadcastWord(uint32_t word) { return _mm512_set1_epi32(word); }

// Numbers outside of `lanes` are neither read nor written, and count as zero.
inline Floats LoadFloats(Lanes lanes, const float* from) {
  return _mm512_maskz_loadu_ps(lanes, from);
}
inline Floats Inside(Lanes lanes, Floats values) { return _mm512_maskz_mov_ps(lanes, values); }
inline void StoreFloats(Lanes lanes, float* to, Floats values) {
  _mm512_mask_storeu_ps(to, lanes, values);
}
inline Words LoadWords(const uint32_t* from) { return _mm512_load_si512(from); }
inline void StoreWords(uint32_t* to, Words words) { _mm512_storeu_si512(to, words); }

inline Floats AsFloats(Words words) { return _mm512_castsi512_ps(words); }
inline Words AsWords(Floats values) { return _mm512_castps_si512(values); }
inline Floats ToFloats(Words integers) { return _mm512_cvtepi32_ps(integers); }

inline Floats MultiplyAdd(Floats left, Floats right, Floats sums) {
  return _mm512_fmadd_ps(left, right, sums);
}
inline Floats Sqrt(Floats values) { return _mm512_sqrt_ps(values); }
inline Floats Relu(Floats values) {
  return _mm512_max_ps(_mm512_setzero_ps(), values);  // the second operand if one is NaN
}
inline float Sum(Floats values) { return _mm512_reduce_add_ps(values); }

// `values` where `gates` are greater than zero, and zero elsewhere.
inline Floats Where(Floats gates, Floats values) {
  return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(gates, _mm512_setzero_ps(), _CMP_GT_OQ), values);
}

// Integers of 16 bits, rounded to the nearest, zero for NaN: those of `low`, then those of `high`.
inline Words RoundSequence(Floats low, Floats high) {
  const __m256i low_half = _mm512_cvtepi32_epi16(_mm512_cvtps_epi32(low));
  const __m256i high_half = _mm512_cvtepi32_epi16(_mm512_cvtps_epi32(high));
  return _mm512_inserti64x4(_mm512_castsi256_si512(low_half), high_half, 1);
}

// The same, each of `upper` in a pair with its neighbour in `lower`.
inline Words RoundPairs(Floats upper, Floats lower) {
  const __m512i high_halves = _mm512_slli_epi32(_mm512_cvtps_epi32(lower), 16);
  return _mm512_mask_blend_epi16(0xAAAAAAAA, _mm512_cvtps_epi32(upper), high_halves);
}

// Adds to each of the sums the products of two pairs.
inline Words AddProducts(Words sums, Words left, Words right) {
  // The intrinsic makes GCC 12 copy the sums, some of them to memory, each time.
  asm("vpdpwssd %2, %1, %0" : "+v"(sums) : "v"(left), "v"(right));
  return sums;
}

// Transposes a block of words, as many rows and columns as lanes.
inline void Transpose(const uint32_t* from, int64_t from_stride, uint32_t* to, int64_t to_stride) {
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

#else  // AVX2 and FMA

using Floats = __m256;
using Words = __m256i;
using Lanes = int64_t;  // how many lanes, from the first on

constexpr int64_t kLanes = 8;
constexpr int64_t kTileRows = 6;  // 12 of 16 registers hold sums

inline Lanes FirstLanes(int64_t count) {
  return count >= kLanes ? kLanes : count <= 0 ? 0 : count;
}

inline __m256i MaskOf(Lanes lanes) {
  alignas(64) static constexpr int32_t kOnesAndZeros[2 * kLanes] = {-1, -1, -1, -1, -1, -1, -1, -1};
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(kOnesAndZeros + kLanes - lanes));
}

inline Floats Broadcast(float value) { return _mm256_set1_ps(value); }
inline Words BroadcastWord(uint32_t word) { return _mm256_set1_epi32(word); }

// Whole registers have a branch of their own, because some CPUs need 40 cycles for a masked store.
inline Floats LoadFloats(Lanes lanes, const float* from) {
  if (lanes == kLanes) return _mm256_loadu_ps(from);
  return _mm256_maskload_ps(from, MaskOf(lanes));
}
inline Floats Inside(Lanes lanes, Floats values) {
  return _mm256_and_ps(values, _mm256_castsi256_ps(MaskOf(lanes)));
}
inline void StoreFloats(Lanes lanes, float* to, Floats values) {
  if (lanes == kLanes) return _mm256_storeu_ps(to, values);
  _mm256_maskstore_ps(to, MaskOf(lanes), values);
}
inline Words LoadWords(const uint32_t* from) {
  return _mm256_load_si256(reinterpret_cast<const __m256i*>(from));
}
inline void StoreWords(uint32_t* to, Words words) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), words);
}

inline Floats AsFloats(Words words) { return _mm256_castsi256_ps(words); }
inline Words AsWords(Floats values) { return _mm256_castps_si256(values); }
inline Floats ToFloats(Words integers) { return _mm256_cvtepi32_ps(integers); }

inline Floats MultiplyAdd(Floats left, Floats right, Floats sums) {
  return _mm256_fmadd_ps(left, right, sums);
}
inline Floats Sqrt(Floats values) { return _mm256_sqrt_ps(values); }
inline Floats Relu(Floats values) { return _mm256_max_ps(_mm256_setzero_ps(), values); }
inline float Sum(Floats values) {
  const __m128 halves = _mm256_castps256_ps128(values) + _mm256_extractf128_ps(values, 1);
  const __m128 quarters = halves + _mm_movehl_ps(halves, halves);
  return quarters[0] + quarters[1];
}

inline Floats Where(Floats gates, Floats values) {
  return _mm256_and_ps(_mm256_cmp_ps(gates, _mm256_setzero_ps(), _CMP_GT_OQ), values);
}

inline Words RoundSequence(Floats low, Floats high) {
  const __m256i lower_bits = _mm256_set1_epi32(0xFFFF);  // zero for what is NaN
  const __m256i low_words = _mm256_and_si256(_mm256_cvtps_epi32(low), lower_bits);
  const __m256i high_words = _mm256_and_si256(_mm256_cvtps_epi32(high), lower_bits);
  const __m256i mixed = _mm256_packus_epi32(low_words, high_words);  // low, high, low, high
  return _mm256_permute4x64_epi64(mixed, 0xD8);
}

inline Words RoundPairs(Floats upper, Floats lower) {
  const __m256i high_halves = _mm256_slli_epi32(_mm256_cvtps_epi32(lower), 16);
  return _mm256_blend_epi16(_mm256_cvtps_epi32(upper), high_halves, 0xAA);
}

inline Words AddProducts(Words sums, Words left, Words right) {
  Words products;
  asm("vpmaddwd %3, %2, %1\n\tvpaddd %1, %0, %0"
      : "+x"(sums), "=&x"(products) : "x"(left), "x"(right));
  return sums;
}

inline void Transpose(const uint32_t* from, int64_t from_stride, uint32_t* to, int64_t to_stride) {
  __m256 rows[8], halves[8];
  for (int i = 0; i < 8; ++i) {
    rows[i] = _mm256_loadu_ps(reinterpret_cast<const float*>(from + i * from_stride));
  }
  for (int i = 0; i < 8; i += 2) {
    halves[i] = _mm256_unpacklo_ps(rows[i], rows[i + 1]);
    halves[i + 1] = _mm256_unpackhi_ps(rows[i], rows[i + 1]);
  }
  // Then half l of rows[i + j] has column 4 l + j of the rows i to i + 3.
  for (int i = 0; i < 8; i += 4) {
    rows[i] = _mm256_shuffle_ps(halves[i], halves[i + 2], 0x44);
    rows[i + 1] = _mm256_shuffle_ps(halves[i], halves[i + 2], 0xEE);
    rows[i + 2] = _mm256_shuffle_ps(halves[i + 1], halves[i + 3], 0x44);
    rows[i + 3] = _mm256_shuffle_ps(halves[i + 1], halves[i + 3], 0xEE);
  }
  for (int j = 0; j < 4; ++j) {
    StoreWords(to + j * to_stride, AsWords(_mm256_permute2f128_ps(rows[j], rows[4 + j], 0x20)));
    StoreWords(to + (4 + j) * to_stride,
               AsWords(_mm256_permute2f128_ps(rows[j], rows[4 + j], 0x31)));
  }
}

#endif

}  // namespace kernels

#endif  // TFAGENTS_SYSTEM_KERNELS_REGISTERS_H_
