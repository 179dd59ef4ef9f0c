// Attributes: `mode` constant, reflect or edge; `pads` all beginnings, then all ends; `value` (float32 tensors only).
#include <algorithm>

#include "ops/gather_copy.h"

namespace refrt {
namespace {

class Pad : public Operator {
 public:
  void prepare(PrepareContext& context) override {
    prepare_move(context);
    const Tensor& in = *context.inputs[0];
    const Tensor& out = *context.outputs[0];
    const std::vector<int64_t> pads = context.attributes->integers("pads", {}, 2 * in.rank);
    context.require(static_cast<int>(pads.size()) == 2 * in.rank, "pads does not have two entries per dimension");
    read_mode(context);
    copy_.prepare(context, out);
    for (int d = 0; d < in.rank; ++d) {
      const int64_t before = pads[static_cast<size_t>(d)], after = pads[static_cast<size_t>(d + in.rank)];
      if (before < 0 || after < 0) context.unsupported("negative pads");
      context.require(
          before <= kMaxTensorBytes && after <= kMaxTensorBytes && out.dims[d] == before + in.dims[d] + after,
          "the output's shape does not follow from pads");
      fill_table(context, d, before, after, in);
    }
    copy_.finish();
  }
  void run(const RunContext& context) override { copy_.run(*context.inputs[0], *context.outputs[0], value_); }

 private:
  enum class Mode { constant, reflect, edge };

  void read_mode(const PrepareContext& context) {
    const std::string_view mode = context.attributes->text("mode", "constant");
    if (mode == "reflect") {
      mode_ = Mode::reflect;
    } else if (mode == "edge") {
      mode_ = Mode::edge;
    } else if (mode != "constant") {
      context.unsupported("mode " + std::string(mode));
    }
    const float value = context.attributes->number("value", 0.0f);
    if (value == 0.0f) return;
    if (context.inputs[0]->dtype != DType::float32) context.unsupported("a pad value for a type other than float32");
    uint32_t bits;
    std::memcpy(&bits, &value, sizeof(bits));
    value_ = bits;
  }

  void fill_table(const PrepareContext& context, int d, int64_t before, int64_t after, const Tensor& in) {
    const int64_t size = in.dims[d], stride = in.span(d + 1, in.rank);
    const int64_t pad = std::max(before, after);
    if (mode_ == Mode::reflect) context.require(pad == 0 || pad < size, "a reflection reaches outside the input");
    if (mode_ == Mode::edge) context.require(pad == 0 || size > 0, "there is no edge to repeat");
    for (int64_t i = 0; i < before + size + after; ++i) {
      int64_t from = i - before;
      if (from < 0 || from >= size) {
        if (mode_ == Mode::constant) from = GatherCopy::kFill;
        if (mode_ == Mode::edge) from = from < 0 ? 0 : size - 1;
        if (mode_ == Mode::reflect) from = from < 0 ? -from : 2 * (size - 1) - from;
      }
      copy_.table(d)[static_cast<size_t>(i)] = from == GatherCopy::kFill ? from : from * stride;
    }
  }

  Mode mode_ = Mode::constant;
  uint64_t value_ = 0;
  GatherCopy copy_;
};

}  // namespace

REFRT_OPERATOR("Pad", Pad);

}  // namespace refrt
