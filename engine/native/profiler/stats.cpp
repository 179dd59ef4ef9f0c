#include "profiler/stats.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

namespace refrt {
namespace {

struct HalfValue {
  uint16_t bits;
};
struct BrainValue {
  uint16_t bits;
};

template <typename T>
double widen(T value) {
  return static_cast<double>(value);
}
// Exact: every half is a multiple of 2^-24 below 2^16.
template <>
double widen(HalfValue value) {
  const int exponent = value.bits >> 10 & 31, fraction = value.bits & 1023;
  const double sign = (value.bits & 0x8000) != 0 ? -1.0 : 1.0;
  if (exponent == 31) return fraction != 0 ? std::numeric_limits<double>::quiet_NaN() : sign * HUGE_VAL;
  if (exponent == 0) return sign * std::ldexp(fraction, -24);
  return sign * std::ldexp(1024 + fraction, exponent - 25);
}
template <>
double widen(BrainValue value) {
  const uint32_t bits = static_cast<uint32_t>(value.bits) << 16;
  float single;
  std::memcpy(&single, &bits, sizeof(single));
  return static_cast<double>(single);
}

// Distance without wrapping: 64-bit integers are subtracted as such before they become a double.
template <typename T>
double distance(T got, T ref) {
  if constexpr (std::is_integral_v<T>) {
    const auto a = static_cast<uint64_t>(got), b = static_cast<uint64_t>(ref);
    return got > ref ? static_cast<double>(a - b) : -static_cast<double>(b - a);
  } else {
    return widen(got) - widen(ref);
  }
}

constexpr int kLanes = 8;
constexpr int64_t kBlock = 4096;

// The five sums of a lane, in the order of RawStats.
struct Sums {
  double values[5] = {};

  void add(const Sums& other) {
    for (int sum = 0; sum < 5; ++sum) values[sum] += other.values[sum];
  }
};

// What one pair adds to the sums; everything else goes to stats.
template <typename T>
Sums terms_of(T got, T ref, int64_t index, double bound, RawStats& stats) {
  const double g = widen(got), r = widen(ref);
  if (std::memcmp(&got, &ref, sizeof(T)) != 0) ++stats.differing;
  if (!std::isfinite(g) || !std::isfinite(r)) {
    const bool mismatch = std::isnan(g) != std::isnan(r) || (!std::isnan(g) && g != r);
    if (mismatch) ++stats.nonfinite_mismatch, ++stats.over_bound;
    return {};
  }
  const double difference = distance(got, ref), size = std::fabs(difference);
  if (size > bound) ++stats.over_bound;
  if (size > stats.max_abs) {
    stats.max_abs = size;
    stats.worst_index = index;
    stats.worst_got = g;
    stats.worst_ref = r;
  }
  return {{difference, difference * difference, r * r, g * g, g * r}};
}

// Lanes 0…7 folded in halves: (0+4 + 2+6) + (1+5 + 3+7).
Sums fold(const Sums (&lanes)[kLanes]) {
  Sums folded[kLanes];
  for (int lane = 0; lane < kLanes; ++lane) folded[lane] = lanes[lane];
  for (int half = kLanes / 2; half > 0; half /= 2)
    for (int lane = 0; lane < half; ++lane) folded[lane].add(folded[lane + half]);
  return folded[0];
}

template <typename T>
RawStats compare_as(const Tensor& got, const void* reference, double bound) {
  RawStats stats;
  stats.count = got.count();
  const T* a = static_cast<const T*>(got.data);
  const T* b = static_cast<const T*>(reference);
  Sums lanes[kLanes];
  for (int64_t start = 0; start < stats.count; start += kBlock) {
    const int64_t end = std::min(start + kBlock, stats.count);
    Sums block[kLanes];
    for (int64_t i = start; i < end; ++i) block[i % kLanes].add(terms_of(a[i], b[i], i, bound, stats));
    for (int lane = 0; lane < kLanes; ++lane) lanes[lane].add(block[lane]);
  }
  const Sums total = fold(lanes);
  double* const sums[] = {&stats.sum_diff, &stats.sum_sq_diff, &stats.sum_sq_ref, &stats.sum_sq_got, &stats.dot};
  for (int sum = 0; sum < 5; ++sum) *sums[sum] = total.values[sum];
  for (double* sum : {sums[0], sums[1], sums[2], sums[3], sums[4], &stats.max_abs}) {
    constexpr double kLargest = std::numeric_limits<double>::max();
    if (!(std::fabs(*sum) <= kLargest)) *sum = *sum < 0 ? -kLargest : kLargest;
  }
  return stats;
}

}  // namespace

RawStats compare(const Tensor& got, const void* reference, double bound) {
  switch (got.dtype) {
    case DType::float32:
      return compare_as<float>(got, reference, bound);
    case DType::float64:
      return compare_as<double>(got, reference, bound);
    case DType::float16:
      return compare_as<HalfValue>(got, reference, bound);
    case DType::bfloat16:
      return compare_as<BrainValue>(got, reference, bound);
    case DType::int8:
      return compare_as<int8_t>(got, reference, bound);
    case DType::int16:
      return compare_as<int16_t>(got, reference, bound);
    case DType::int32:
      return compare_as<int32_t>(got, reference, bound);
    case DType::int64:
      return compare_as<int64_t>(got, reference, bound);
    case DType::uint8:
    case DType::boolean:
      return compare_as<uint8_t>(got, reference, bound);
    case DType::uint16:
      return compare_as<uint16_t>(got, reference, bound);
    case DType::uint32:
      return compare_as<uint32_t>(got, reference, bound);
    case DType::uint64:
      return compare_as<uint64_t>(got, reference, bound);
  }
  return {};
}

}  // namespace refrt
