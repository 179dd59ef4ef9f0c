#include "ops/gather_copy.h"

namespace refrt {
namespace {

class Transpose : public Operator {
 public:
  void prepare(PrepareContext& context) override {
    prepare_move(context);
    const Tensor& in = *context.inputs[0];
    const Tensor& out = *context.outputs[0];
    const std::vector<int64_t> order = context.attributes->integers("perm", {}, in.rank);
    context.require(static_cast<int>(order.size()) == in.rank, "perm does not have one entry per dimension");
    bool used[kMaxRank] = {};
    copy_.prepare(context, out);
    for (int d = 0; d < in.rank; ++d) {
      const int64_t from = order[static_cast<size_t>(d)];
      context.require(from >= 0 && from < in.rank && !used[from], "perm is no permutation");
      used[from] = true;
      context.require(out.dims[d] == in.dims[from], "the output's shape does not follow from the input");
      const int64_t stride = in.span(static_cast<int>(from) + 1, in.rank);
      for (int64_t i = 0; i < out.dims[d]; ++i) copy_.table(d)[static_cast<size_t>(i)] = i * stride;
    }
    copy_.finish();
  }
  void run(const RunContext& context) override { copy_.run(*context.inputs[0], *context.outputs[0], 0); }

 private:
  GatherCopy copy_;
};

}  // namespace

REFRT_OPERATOR("Transpose", Transpose);

}  // namespace refrt
