// Attributes `starts` and `steps` have one entry per dimension, resolved by the exporter; how many elements are taken
// follows from the output's shape.
#include "ops/gather_copy.h"

namespace refrt {
namespace {

constexpr int64_t kMostStep = int64_t{1} << 31;

class Slice : public Operator {
 public:
  void prepare(PrepareContext& context) override {
    prepare_move(context);
    const Tensor& in = *context.inputs[0];
    const Tensor& out = *context.outputs[0];
    const std::vector<int64_t> starts = context.attributes->integers("starts", {}, in.rank);
    const std::vector<int64_t> steps = context.attributes->integers("steps", {}, in.rank);
    context.require(starts.size() == steps.size() && static_cast<int>(steps.size()) == in.rank,
                    "starts and steps do not have one entry per dimension");
    copy_.prepare(context, out);
    for (int d = 0; d < in.rank; ++d) {
      const int64_t start = starts[static_cast<size_t>(d)], step = steps[static_cast<size_t>(d)];
      context.require(step != 0 && step <= kMostStep && step >= -kMostStep, "a step is 0 or too large");
      if (out.dims[d] == 0) continue;
      context.require(start >= 0 && start < in.dims[d], "a start lies outside the input");
      const int64_t last = start + (out.dims[d] - 1) * step;
      context.require(last >= 0 && last < in.dims[d], "the slice reaches outside the input");
      const int64_t stride = in.span(d + 1, in.rank);
      for (int64_t i = 0; i < out.dims[d]; ++i) copy_.table(d)[static_cast<size_t>(i)] = (start + i * step) * stride;
    }
    copy_.finish();
  }
  void run(const RunContext& context) override { copy_.run(*context.inputs[0], *context.outputs[0], 0); }

 private:
  GatherCopy copy_;
};

}  // namespace

REFRT_OPERATOR("Slice", Slice);

}  // namespace refrt
