// Conv (ONNX 1, 11, 22): one or two spatial dimensions, groups, strides, dilations, padding; optional bias.
//
// kernels/plain.h fixes the order of the sums. The operator's own result includes the bias; fused stages follow.
// The exporter has resolved auto_pad into pads.
#include <memory>

#include "kernels/conv.h"
#include "kernels/pool.h"
#include "ops/geometry.h"
#include "ops/op.h"

namespace refrt {
namespace {

class ConvOperator : public Operator {
 public:
  void prepare(PrepareContext& context) override {
    context.expect_counts(2, 3);
    const Tensor& x = context.input(0);
    const Tensor& w = context.input(1);
    const Tensor& y = context.output(0);
    geometry_ = read_geometry(context, x, w, y);
    has_bias_ = context.has_input(2);
    if (has_bias_) {
      const Tensor& bias = context.input(2);
      context.require(bias.rank == 1 && bias.dims[0] == w.dims[0], "the bias needs one value per output channel");
    }
    require_sizes(context);
    conv_ = std::make_unique<Conv>(geometry_);
    constant_weights_ = w.constant;
    if (constant_weights_) conv_->pack(w.f32());
    const size_t floats = conv_->workspace_floats(static_cast<size_t>(context.threads));
    context.request_workspace(static_cast<int64_t>(floats * sizeof(float)));
  }

  void run(const RunContext& context) override {
    const Tensor* const* in = context.inputs;
    if (!constant_weights_) conv_->pack(in[1]->f32());
    const float* bias = has_bias_ ? in[2]->f32() : nullptr;
    conv_->run(in[0]->f32(), bias, context.outputs[0]->f32(), context.epilogue, static_cast<float*>(context.workspace),
               workers_of(*context.threads));
  }

 private:
  // The kernels compute sizes in size_t, 32 bits on armv7: what could overflow is refused here, in 64 bits.
  void require_sizes(const PrepareContext& context) const {
    const auto wide = [](size_t n) { return static_cast<int64_t>(n); };
    const ConvGeometry& g = geometry_;
    const int64_t most = kMaxTensorBytes / static_cast<int64_t>(sizeof(float));
    const int64_t k = wide(g.in_channels / g.groups) * wide(g.kernel_h) * wide(g.kernel_w);
    const int64_t channels = wide(g.out_channels / g.groups) + wide(kTileColumns);
    const int64_t padded_h = (wide(g.out_h) + 1) * wide(g.stride_h) + wide(g.kernel_h) * wide(g.dilation_h);
    const int64_t padded_w = (wide(g.out_w) + 16) * wide(g.stride_w) + wide(g.kernel_w) * wide(g.dilation_w);
    if (k > most / (72 * context.threads) || channels > most / k / wide(g.groups) || padded_h > most / padded_w) {
      context.unsupported("the convolution is too large");
    }
  }

  ConvGeometry geometry_;
  std::unique_ptr<Conv> conv_;
  bool constant_weights_ = false;
  bool has_bias_ = false;
};

}  // namespace

REFRT_OPERATOR("Conv", ConvOperator);

}  // namespace refrt
