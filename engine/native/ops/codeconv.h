// The convolution that ConvInteger and QLinearConv share: exact sums of steps. Padded taps are steps of 0, that is the
// input's zero point.
#pragma once

#include <vector>

#include "backends/cpu/threads.h"
#include "ops/codes.h"
#include "ops/geometry.h"
#include "ops/op.h"

namespace refrt {

class CodeConv {
 public:
  // Which inputs of the operator hold what.
  struct Places {
    size_t x, x_zero, w, w_zero;
  };

  // The weights may have a zero point an output channel.
  void prepare(PrepareContext& context, const Places& places, const Tensor& y) {
    places_ = places;
    inputs_ = context.inputs.size();
    const Tensor& x = code_input(context, places.x);
    const Tensor& w = code_input(context, places.w);
    g_ = read_geometry(context, x, w, y);
    const Tensor* zero = zero_input(context, places.x_zero, x.dtype);
    if (zero != nullptr && zero->count() != 1) context.unsupported("more than one zero point of the input");
    zero = zero_input(context, places.w_zero, w.dtype);
    w_zero_ = PerLine::of_columns(context, zero, w.dims[0]);
    k_ = g_.in_channels / g_.groups * g_.kernel_h * g_.kernel_w;
    const int64_t size = static_cast<int64_t>(sizeof(Step)), k = static_cast<int64_t>(k_);
    of_weights_ = w.count() * size;
    context.request_workspace(of_weights_ + context.threads * k * static_cast<int64_t>(kBlock) * size);
    packed_once_ = packs_once(w, zero);
    if (packed_once_) {
      packed_.resize(static_cast<size_t>(w.count()));
      pack(w, zero, packed_.data());
    }
  }

  int64_t products() const { return static_cast<int64_t>(k_); }
  int64_t channels() const { return static_cast<int64_t>(g_.out_channels); }

  // put(index in the output, channel, sum) for every element.
  template <class Put>
  void run(const RunContext& context, const Put& put) {
    Step* workspace = static_cast<Step*>(context.workspace);
    Step* weights = packed_once_ ? packed_.data() : workspace;
    if (!packed_once_) pack(*context.inputs[places_.w], optional(context, places_.w_zero), weights);
    Step* blocks = workspace + of_weights_ / static_cast<int64_t>(sizeof(Step));
    const size_t pixels = g_.out_h * g_.out_w, of_image = (pixels + kBlock - 1) / kBlock;
    const int64_t items = static_cast<int64_t>(g_.batch * g_.groups * of_image);
    context.threads->parallel(items, 1, [&](int64_t begin, int64_t end, int worker) {
      Step* block = blocks + static_cast<size_t>(worker) * k_ * kBlock;
      for (size_t item = static_cast<size_t>(begin); item < static_cast<size_t>(end); ++item) {
        const size_t first = item % of_image * kBlock, plane = item / of_image;
        const size_t count = std::min(kBlock, pixels - first);
        gather(context, plane / g_.groups, plane % g_.groups, first, count, block);
        multiply(weights, plane / g_.groups, plane % g_.groups, first, count, block, put);
      }
    });
  }

 private:
  static constexpr size_t kBlock = 4 * kStepColumns;  // output pixels

  const Tensor* optional(const RunContext& context, size_t index) const {
    return index < inputs_ ? context.inputs[index] : nullptr;
  }

  void pack(const Tensor& w, const Tensor* zero, Step* to) const {
    for (size_t channel = 0; channel < g_.out_channels; ++channel) {
      const int32_t own = w_zero_.zero(zero, channel);
      for (size_t p = 0; p < k_; ++p) {
        to[channel * k_ + p] = static_cast<Step>(code_at(w, channel * k_ + p) - own);
      }
    }
  }

  // The steps that `count` output pixels from `first` on are sums of, as panels [k, kStepColumns].
  void gather(const RunContext& context, size_t image, size_t group, size_t first, size_t count, Step* block) const {
    const Tensor& x = *context.inputs[places_.x];
    const Tensor* zero = optional(context, places_.x_zero);
    const int32_t own = zero == nullptr ? 0 : code_at(*zero, 0);
    const size_t channels = g_.in_channels / g_.groups, of_channel = g_.in_h * g_.in_w;
    const size_t base = (image * g_.in_channels + group * channels) * of_channel;
    for (size_t i = 0; i < step_panels(count) * kStepColumns; ++i) {
      const size_t pixel = first + i, row = pixel / g_.out_w, column = pixel % g_.out_w;
      Step* to = block + i / kStepColumns * kStepColumns * k_ + i % kStepColumns;
      for (size_t c = 0; c < channels; ++c) {
        for (size_t h = 0; h < g_.kernel_h; ++h) {
          const int64_t y = tap(row, g_.stride_h, h, g_.dilation_h, g_.pad_top);
          const bool inside = i < count && y >= 0 && y < static_cast<int64_t>(g_.in_h);
          const size_t line = base + c * of_channel + (inside ? static_cast<size_t>(y) * g_.in_w : 0);
          for (size_t w = 0; w < g_.kernel_w; ++w, to += kStepColumns) {
            const int64_t at = tap(column, g_.stride_w, w, g_.dilation_w, g_.pad_left);
            const bool there = inside && at >= 0 && at < static_cast<int64_t>(g_.in_w);
            *to = there ? static_cast<Step>(code_at(x, line + static_cast<size_t>(at)) - own) : Step{0};
          }
        }
      }
    }
  }

  static int64_t tap(size_t out, size_t stride, size_t kernel, size_t dilation, size_t pad) {
    return static_cast<int64_t>(out) * static_cast<int64_t>(stride) +
           static_cast<int64_t>(kernel) * static_cast<int64_t>(dilation) - static_cast<int64_t>(pad);
  }

  template <class Put>
  void multiply(const Step* weights, size_t image, size_t group, size_t first, size_t count, const Step* block,
                const Put& put) const {
    const size_t channels = g_.out_channels / g_.groups, pixels = g_.out_h * g_.out_w;
    for (size_t panel = 0; panel < step_panels(count); ++panel) {
      const size_t start = panel * kStepColumns;
      multiply_panel(weights + group * channels * k_, channels, block + start * k_,
                     std::min(kStepColumns, count - start), k_, [&](size_t row, size_t column, int64_t sum) {
                       const size_t channel = group * channels + row;
                       put((image * g_.out_channels + channel) * pixels + first + start + column, channel, sum);
                     });
    }
  }

  Places places_{};
  ConvGeometry g_;
  size_t inputs_ = 0, k_ = 0;
  int64_t of_weights_ = 0;  // bytes
  PerLine w_zero_;
  std::vector<Step> packed_;
  bool packed_once_ = false;
};

}  // namespace refrt
