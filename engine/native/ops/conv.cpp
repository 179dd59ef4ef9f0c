// Conv (ONNX 1, 11, 22): one or two spatial dimensions, groups, strides, dilations, padding; optional bias.
//
// kernels/plain.h fixes the order of the sums. The operator's own result includes the bias; fused stages follow.
// The exporter has resolved auto_pad into pads.
#include <array>
#include <memory>
#include <vector>

#include "kernels/conv.h"
#include "kernels/pool.h"
#include "ops/op.h"

namespace refrt {
namespace {

constexpr int64_t kMostStep = 1 << 20;  // of strides, dilations and pads: keeps their products far from overflow

// One spatial dimension, from attributes and shapes.
struct Axis {
  int64_t in = 1, out = 1, kernel = 1, stride = 1, dilation = 1, pad_begin = 0, pad_end = 0;

  int64_t extent() const { return (kernel - 1) * dilation + 1; }
};

class ConvOperator : public Operator {
 public:
  void prepare(PrepareContext& context) override {
    context.expect_counts(2, 3);
    const Tensor& x = context.input(0);
    const Tensor& w = context.input(1);
    const Tensor& y = context.output(0);
    if (x.rank != 3 && x.rank != 4) context.unsupported("only one or two spatial dimensions");
    context.require(w.rank == x.rank && y.rank == x.rank, "input, weights and output differ in rank");
    read_geometry(context, x, w, y);
    if (context.has_input(2)) {
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
  void read_geometry(PrepareContext& context, const Tensor& x, const Tensor& w, const Tensor& y) {
    const int64_t groups = context.attributes->integer("group", 1);
    context.require(groups >= 1 && x.dims[1] == w.dims[1] * groups && w.dims[0] % groups == 0,
                    "channels do not fit the groups");
    context.require(x.dims[1] >= 1 && w.dims[0] >= 1, "no channels");
    context.require(y.dims[0] == x.dims[0] && y.dims[1] == w.dims[0], "the output has other dimensions");
    has_bias_ = context.has_input(2);
    const std::array<Axis, 2> axes = read_axes(context, x, w, y);
    geometry_.batch = static_cast<size_t>(x.dims[0]);
    geometry_.in_channels = static_cast<size_t>(x.dims[1]);
    geometry_.out_channels = static_cast<size_t>(w.dims[0]);
    geometry_.groups = static_cast<size_t>(groups);
    geometry_.in_h = static_cast<size_t>(axes[0].in);
    geometry_.in_w = static_cast<size_t>(axes[1].in);
    geometry_.out_h = static_cast<size_t>(axes[0].out);
    geometry_.out_w = static_cast<size_t>(axes[1].out);
    geometry_.kernel_h = static_cast<size_t>(axes[0].kernel);
    geometry_.kernel_w = static_cast<size_t>(axes[1].kernel);
    geometry_.stride_h = static_cast<size_t>(axes[0].stride);
    geometry_.stride_w = static_cast<size_t>(axes[1].stride);
    geometry_.dilation_h = static_cast<size_t>(axes[0].dilation);
    geometry_.dilation_w = static_cast<size_t>(axes[1].dilation);
    geometry_.pad_top = static_cast<size_t>(axes[0].pad_begin);
    geometry_.pad_left = static_cast<size_t>(axes[1].pad_begin);
  }

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

  // Rows, then columns; a 1-D convolution has one row.
  static std::array<Axis, 2> read_axes(const PrepareContext& context, const Tensor& x, const Tensor& w,
                                       const Tensor& y) {
    const int spatial = x.rank - 2;
    const Attributes& attributes = *context.attributes;
    const std::vector<int64_t> ones(static_cast<size_t>(spatial), 1);
    const auto strides = attributes.integers("strides", ones, spatial);
    const auto dilations = attributes.integers("dilations", ones, spatial);
    const auto pads = attributes.integers("pads", std::vector<int64_t>(ones.size() * 2, 0), 2 * spatial);
    const auto kernel = attributes.integers("kernel_shape", {w.dims + 2, w.dims + w.rank}, spatial);
    std::array<Axis, 2> axes;
    for (int i = 0; i < spatial; ++i) {
      const size_t at = static_cast<size_t>(i);
      Axis& axis = axes[at + static_cast<size_t>(2 - spatial)];
      axis =
          Axis{x.dims[2 + i], y.dims[2 + i], kernel[at], strides[at], dilations[at], pads[at], pads[at + ones.size()]};
      context.require(axis.kernel == w.dims[2 + i], "kernel_shape differs from the weights");
      context.require(axis.kernel >= 1 && axis.stride >= 1 && axis.dilation >= 1, "a step is not positive");
      context.require(axis.stride <= kMostStep && axis.dilation <= kMostStep, "a step is too large");
      context.require(axis.pad_begin >= 0 && axis.pad_end >= 0, "negative padding");
      context.require(axis.pad_begin <= kMostStep && axis.pad_end <= kMostStep, "too much padding");
      const int64_t room = axis.in + axis.pad_begin + axis.pad_end - axis.extent();
      context.require(room >= 0 ? axis.out == room / axis.stride + 1 : axis.out == 0,
                      "the output has other dimensions");
    }
    return axes;
  }

  ConvGeometry geometry_;
  std::unique_ptr<Conv> conv_;
  bool constant_weights_ = false;
  bool has_bias_ = false;
};

}  // namespace

REFRT_OPERATOR("Conv", ConvOperator);

}  // namespace refrt
