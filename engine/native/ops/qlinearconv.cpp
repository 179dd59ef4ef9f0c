// QLinearConv (ONNX 10): codes in, codes out, with an int32 bias in units of x scale * w scale. The sums are exact
// whatever their length; codes.h says how they become codes. Geometry: as Conv.
//
// Scale and zero point of the weights are one value or one an output channel, the others one value.
#include <vector>

#include "ops/codeconv.h"

namespace refrt {
namespace {

class QLinearConv : public Operator {
 public:
  void prepare(PrepareContext& context) override {
    context.expect_counts(8, 9);
    context.expect_no_epilogue();
    const Tensor& zero = code_input(context, kYZero);
    conv_.prepare(context, {kX, kXZero, kW, kWZero}, context.output(0, zero.dtype));
    w_scale_ = PerLine::of_columns(context, &context.input(kWScale), conv_.channels());
    if (context.input(kXScale).count() != 1 || context.input(kYScale).count() != 1 || zero.count() != 1) {
      context.unsupported("more than one scale or zero point of the input or the output");
    }
    has_bias_ = context.has_input(kBias);
    if (has_bias_) {
      const Tensor& bias = context.input(kBias, DType::int32);
      context.require(bias.rank == 1 && bias.dims[0] == conv_.channels(),
                      "the bias needs one value per output channel");
    }
    requantise_ = Requantise::to(zero.dtype);
    multipliers_.resize(static_cast<size_t>(conv_.channels()));
  }

  void run(const RunContext& context) override {
    Tensor* const* in = context.inputs;
    uint8_t* out = static_cast<uint8_t*>(context.outputs[0]->data);
    const int32_t* bias = has_bias_ ? static_cast<const int32_t*>(in[kBias]->data) : nullptr;
    const float x_scale = *in[kXScale]->f32(), y_scale = *in[kYScale]->f32();
    const int32_t zero = code_at(*in[kYZero], 0);
    for (size_t channel = 0; channel < multipliers_.size(); ++channel) {
      multipliers_[channel] = x_scale * w_scale_.scale(in[kWScale], channel) / y_scale;
    }
    conv_.run(context,
              [=, multipliers = multipliers_.data(), back = requantise_](size_t at, size_t channel, int64_t sum) {
                out[at] = back(bias == nullptr ? sum : sum + bias[channel], multipliers[channel], zero);
              });
  }

 private:
  enum : size_t { kX, kXScale, kXZero, kW, kWScale, kWZero, kYScale, kYZero, kBias };

  CodeConv conv_;
  PerLine w_scale_;
  std::vector<float> multipliers_;  // one a channel
  Requantise requantise_;
  bool has_bias_ = false;
};

}  // namespace

REFRT_OPERATOR("QLinearConv", QLinearConv);

}  // namespace refrt
