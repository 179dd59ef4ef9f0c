// One tensor against the golden's: sums in float64 in index order. Only measured here; judged elsewhere.
#pragma once

#include <cstdint>

#include "ops/op.h"

namespace refrt {

// Field for field engine/contract/result.py RawStats.
struct RawStats {
  int64_t count = 0;
  int64_t differing = 0;  // bits differ; any NaN equals any NaN
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
