#include <cstring>

#include "ops/op.h"

namespace refrt {
namespace {

class Concat : public Operator {
 public:
  void prepare(PrepareContext& context) override {
    context.expect_counts(1, SIZE_MAX);
    context.expect_no_epilogue();
    context.require(context.outputs[0] != nullptr, "an output is missing");
    const Tensor& out = *context.outputs[0];
    const int64_t axis = context.attributes->integer("axis", kMaxRank);
    context.require(axis >= -out.rank && axis < out.rank, "axis lies outside the output's rank");
    axis_ = static_cast<int>(axis < 0 ? axis + out.rank : axis);
    int64_t along = 0;
    for (const Tensor* in : context.inputs) {
      context.require(in != nullptr && in->dtype == out.dtype && in->rank == out.rank,
                      "an input differs in type or rank");
      for (int d = 0; d < out.rank; ++d) {
        context.require(d == axis_ || in->dims[d] == out.dims[d], "an input differs in shape");
      }
      along += in->dims[axis_];
    }
    context.require(along == out.dims[axis_], "the output's shape does not follow from the inputs");
    inputs_ = context.inputs.size();
  }

  void run(const RunContext& context) override {
    const Tensor& out = *context.outputs[0];
    if (out.count() == 0) return;
    auto* to = static_cast<unsigned char*>(out.data);
    const int64_t outer = out.span(0, axis_);
    for (int64_t i = 0; i < outer; ++i) {
      for (size_t n = 0; n < inputs_; ++n) {
        const Tensor& in = *context.inputs[n];
        const auto bytes = static_cast<size_t>(in.span(axis_, in.rank) * item_size(in.dtype));
        if (bytes > 0)
          std::memcpy(to, static_cast<const unsigned char*>(in.data) + static_cast<size_t>(i) * bytes, bytes);
        to += bytes;
      }
    }
  }

 private:
  int axis_ = 0;
  size_t inputs_ = 0;
};

}  // namespace

REFRT_OPERATOR("Concat", Concat);

}  // namespace refrt
