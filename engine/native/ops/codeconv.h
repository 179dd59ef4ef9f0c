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
    if (g_.kernel_h == 1 && g_.kernel_w == 1 && g_.in_h == g_.out_h && g_.in_w == g_.out_w) join_rows();
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

  // A pointwise convolution sees one long row.
  void join_rows() {
    const bool plain = g_.stride_h == 1 && g_.stride_w == 1 && g_.pad_top == 0 && g_.pad_left == 0;
    if (!plain) return;
    g_.in_w *= g_.in_h;
    g_.out_w = g_.in_w;
    g_.in_h = g_.out_h = 1;
  }

  void pack(const Tensor& w, const Tensor* zero, Step* to) const {
    for (size_t channel = 0; channel < g_.out_channels; ++channel) {
      const int32_t own = w_zero_.zero(zero, channel);
      for (size_t p = 0; p < k_; ++p) {
        to[channel * k_ + p] = static_cast<Step>(code_at(w, channel * k_ + p) - own);
      }
    }
  }

  // Where the first tap of an output pixel lies in the input: outside where there is padding.
  struct Corner {
    int64_t top, left;
  };

  // The steps that `count` output pixels from `first` on are sums of, as panels [k, kStepColumns].
  void gather(const RunContext& context, size_t image, size_t group, size_t first, size_t count, Step* block) const {
    const Tensor& x = *context.inputs[places_.x];
    const Tensor* zero = optional(context, places_.x_zero);
    const int32_t own = zero == nullptr ? 0 : code_at(*zero, 0);
    const size_t base = (image * g_.groups + group) * (g_.in_channels / g_.groups) * g_.in_h * g_.in_w;
    for (size_t panel = 0; panel < step_panels(count); ++panel) {
      const size_t start = panel * kStepColumns, lanes = std::min(kStepColumns, count - start);
      Corner corners[kStepColumns];
      for (size_t lane = 0; lane < lanes; ++lane) corners[lane] = corner(first + start + lane);
      // in one row of the output, and next to one another in the input
      const bool joined = lanes == kStepColumns && g_.stride_w == 1 && corners[0].top == corners[lanes - 1].top;
      with_codes(
          x, [&](const auto* codes) { gather_panel(codes + base, own, corners, lanes, joined, block + start * k_); });
    }
  }

  Corner corner(size_t pixel) const {
    return {static_cast<int64_t>(pixel / g_.out_w * g_.stride_h) - static_cast<int64_t>(g_.pad_top),
            static_cast<int64_t>(pixel % g_.out_w * g_.stride_w) - static_cast<int64_t>(g_.pad_left)};
  }

  template <class Code>
  void gather_panel(const Code* codes, int32_t own, const Corner* corners, size_t lanes, bool joined, Step* to) const {
    const int64_t height = static_cast<int64_t>(g_.in_h), width = static_cast<int64_t>(g_.in_w);
    for (size_t c = 0; c < g_.in_channels / g_.groups; ++c, codes += g_.in_h * g_.in_w) {
      for (size_t h = 0; h < g_.kernel_h; ++h) {
        for (size_t w = 0; w < g_.kernel_w; ++w, to += kStepColumns) {
          const int64_t down = static_cast<int64_t>(h * g_.dilation_h), right = static_cast<int64_t>(w * g_.dilation_w);
          const int64_t y = corners[0].top + down, x = corners[0].left + right;
          if (joined && y >= 0 && y < height && x >= 0 && x + static_cast<int64_t>(kStepColumns) <= width) {
            const Code* from = codes + y * width + x;
            for (size_t lane = 0; lane < kStepColumns; ++lane) to[lane] = static_cast<Step>(from[lane] - own);
            continue;
          }
          std::fill(to, to + kStepColumns, Step{0});
          for (size_t lane = 0; lane < lanes; ++lane) {
            const int64_t row = corners[lane].top + down, column = corners[lane].left + right;
            const bool inside = row >= 0 && row < height && column >= 0 && column < width;
            if (inside) to[lane] = static_cast<Step>(codes[row * width + column] - own);
          }
        }
      }
    }
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
