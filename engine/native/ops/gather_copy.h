// Moves elements of any type: output element (i, j, …) comes from input element table_0[i] + table_1[j] + …
// Transpose, Slice and Pad differ in their tables only.
#pragma once

#include <cstring>
#include <vector>

#include "ops/op.h"

namespace refrt {

class GatherCopy {
 public:
  static constexpr int64_t kFill = -1;  // table entry: this output element is the fill value

  // One table per output dimension, dims[d] entries each. Throws Failure(3) when they would be too large.
  void prepare(const PrepareContext& context, const Tensor& out) {
    int64_t entries = 0;
    for (int d = 0; d < out.rank; ++d) entries += out.dims[d];
    if (entries > (int64_t{1} << 24)) context.unsupported("dimensions beyond 2^24");
    tables_.clear();
    for (int d = 0; d < out.rank; ++d) tables_.emplace_back(static_cast<size_t>(out.dims[d]));
    item_ = item_size(out.dtype);
    count_ = out.count();
  }
  std::vector<int64_t>& table(int d) { return tables_[static_cast<size_t>(d)]; }
  // After the tables are filled: rows that are contiguous in the input are copied as one.
  void finish() {
    contiguous_ = true;
    if (tables_.empty()) return;
    const std::vector<int64_t>& last = tables_.back();
    for (size_t i = 0; i < last.size(); ++i) contiguous_ = contiguous_ && last[i] == last[0] + static_cast<int64_t>(i);
    contiguous_ = contiguous_ && (last.empty() || last[0] != kFill);
  }

  void run(const Tensor& in, const Tensor& out, uint64_t fill) const {
    switch (item_) {
      case 1:
        return run_as<uint8_t>(in, out, fill);
      case 2:
        return run_as<uint16_t>(in, out, fill);
      case 4:
        return run_as<uint32_t>(in, out, fill);
      default:
        return run_as<uint64_t>(in, out, fill);
    }
  }

 private:
  template <typename T>
  void run_as(const Tensor& in, const Tensor& out, uint64_t fill) const {
    if (count_ == 0) return;
    const T* from = static_cast<const T*>(in.data);
    T* to = static_cast<T*>(out.data);
    if (tables_.empty()) {
      to[0] = from[0];
      return;
    }
    const int outer = static_cast<int>(tables_.size()) - 1;
    const auto row = static_cast<int64_t>(tables_.back().size());
    for (int64_t done = 0; done < count_; done += row) {
      int64_t rest = done / row, base = 0;
      for (int d = outer - 1; d >= 0; --d) {
        const std::vector<int64_t>& table = tables_[static_cast<size_t>(d)];
        const int64_t offset = table[static_cast<size_t>(rest % static_cast<int64_t>(table.size()))];
        rest /= static_cast<int64_t>(table.size());
        base = offset == kFill || base == kFill ? kFill : base + offset;
      }
      copy_row(from, to + done, base, static_cast<T>(fill));
    }
  }

  template <typename T>
  void copy_row(const T* from, T* to, int64_t base, T fill) const {
    const std::vector<int64_t>& last = tables_.back();
    if (base != kFill && contiguous_) {
      std::memcpy(to, from + base + last[0], last.size() * sizeof(T));
      return;
    }
    for (size_t i = 0; i < last.size(); ++i) {
      to[i] = base == kFill || last[i] == kFill ? fill : from[base + last[i]];
    }
  }

  std::vector<std::vector<int64_t>> tables_;
  int item_ = 0;
  int64_t count_ = 0;
  bool contiguous_ = false;
};

// Checks that input 0 and output 0 have one type, and a rank of their own when `same_rank`.
inline void prepare_move(PrepareContext& context, size_t most_inputs = 1) {
  context.expect_counts(1, most_inputs);
  context.expect_no_epilogue();
  context.require(context.outputs[0] != nullptr && context.inputs[0]->dtype == context.outputs[0]->dtype,
                  "input and output differ in type");
  context.require(context.inputs[0]->rank == context.outputs[0]->rank, "input and output differ in rank");
}

}  // namespace refrt
