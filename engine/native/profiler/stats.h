// One tensor against the golden's. Only measured here; judged elsewhere.
//
// Sums are of float64 in the order of the host's comparison, so that both have the same bits: element i goes to lane
// i mod 8 of block i div 4096, a block adds its rows one after another, blocks follow each other, and the lanes are
// folded in halves at the end. A pair that is not finite on both sides counts as a pair of zeros.
#pragma once

#include <cstdint>

#include "ops/op.h"

namespace refrt {

// Field for field engine/contract/result.py RawStats.
struct RawStats {
  int64_t count = 0;
  int64_t differing = 0;  // bits differ
  int64_t over_bound = 0;
  double max_abs = 0;
  int64_t worst_index = -1;
  double worst_got = 0;
  double worst_ref = 0;
  double sum_diff = 0;
  double sum_sq_diff = 0;
  double sum_sq_ref = 0;
  double sum_sq_got = 0;
  double dot = 0;
  int64_t nonfinite_mismatch = 0;
};

// `reference` holds as many elements of the same type as `got`. Sums that overflow float64 stop at its largest value.
RawStats compare(const Tensor& got, const void* reference, double bound);

}  // namespace refrt
