#include "conv.h"

#include <algorithm>
#include <cstring>

namespace refrt {

namespace {

// Below this many columns vectors over channels waste less than vectors over pixels.
constexpr size_t kFewColumns = 64;
// Columns finished together: long enough runs for the stages and the stores, short enough for the caches.
constexpr size_t kMostColumns = 16 * kTileColumns;
constexpr size_t kPackedFloats = 24 * 1024;
static_assert(kFewColumns <= kMostColumns, "a block over channels holds all columns");

void zero(float* p, size_t n) { std::memset(p, 0, n * sizeof(float)); }

}  // namespace

struct Conv::Call {
  const float* in;
  const float* bias;
  float* out;
  const Epilogue* epilogue;
  float* workspace;
  const Workers& workers;
  size_t group;
};

// The columns [first, first + count) as runs of pixels that lie side by side in input and output: pixels of one
// row, or of one image when the convolution is pointwise.
class Conv::Runs {
 public:
  struct Run {
    size_t column, count, image, pixel;
  };
  Runs(const Conv& conv, size_t first, size_t count) {
    const size_t pixels = conv.g_.out_h * conv.g_.out_w;
    const size_t length = conv.pointwise_ ? pixels : conv.g_.out_w;
    for (size_t column = 0; column < count;) {
      const size_t pixel = (first + column) % pixels;
      const size_t n = std::min(count - column, length - pixel % length);
      items_[size_++] = Run{column, n, (first + column) / pixels, pixel};
      column += n;
    }
    columns_ = count;
  }
  const Run* begin() const { return items_; }
  const Run* end() const { return items_ + size_; }
  size_t columns() const { return columns_; }

 private:
  Run items_[kMostColumns];
  size_t size_ = 0, columns_ = 0;
};

Conv::Conv(const ConvGeometry& geometry) : g_(geometry) {
  k_ = g_.in_channels / g_.groups * g_.kernel_h * g_.kernel_w;
  pointwise_ = g_.kernel_h * g_.kernel_w == 1 && g_.stride_h * g_.stride_w == 1 && g_.out_h == g_.in_h &&
               g_.out_w == g_.in_w && g_.pad_top + g_.pad_left == 0;
  depthwise_ = g_.groups > 1 && g_.in_channels == g_.groups;
  if (depthwise_) depthwise_kernel_ = Depthwise(g_);
}

bool Conv::over_channels() const { return columns() < kFewColumns; }

size_t Conv::block_columns() const {
  const size_t fitting = kPackedFloats / std::max<size_t>(k_, 1) / kTileColumns * kTileColumns;
  return std::min(kMostColumns, std::max(kTileColumns, fitting));
}

void Conv::pack(const float* weights) {
  const size_t channels = g_.out_channels / g_.groups;
  if (depthwise_) {
    weights_.assign(weights, weights + g_.out_channels * k_);
    return;
  }
  const size_t width = over_channels() ? kTileColumns : kTileRows;
  const size_t group_floats = panels_of(channels, width) * width * k_;
  weights_.resize(group_floats * g_.groups);
  for (size_t group = 0; group < g_.groups; ++group) {
    pack_panels(weights + group * channels * k_, channels, k_, k_, 1, width, weights_.data() + group * group_floats);
  }
}

size_t Conv::workspace_floats(size_t workers) const {
  if (depthwise_) return depthwise_kernel_.workspace_floats(g_, workers);
  if (over_channels()) return panels_of(columns(), kTileRows) * kTileRows * k_;
  return workers * block_columns() * k_;
}

void Conv::run(const float* in, const float* bias, float* out, const Epilogue* epilogue, float* workspace,
               const Workers& workers) const {
  if (columns() == 0) return;
  if (depthwise_) return depthwise_kernel_.run(g_, weights_.data(), in, bias, out, epilogue, workspace, workers);
  for (size_t group = 0; group < g_.groups; ++group) {
    const Call call{in, bias, out, epilogue, workspace, workers, group};
    if (over_channels()) {
      run_over_channels(call);
    } else {
      run_over_pixels(call);
    }
  }
}

void Conv::run_over_pixels(const Call& call) const {
  const size_t channels = g_.out_channels / g_.groups;
  const float* weights = weights_.data() + call.group * panels_of(channels, kTileRows) * kTileRows * k_;
  const size_t width = block_columns();
  share(call.workers, panels_of(columns(), width), [&](size_t worker, size_t begin, size_t end) {
    float* panels = call.workspace + worker * width * k_;
    alignas(64) float block[kTileRows * kMostColumns] = {};
    for (size_t b = begin; b < end; ++b) {
      const Runs runs(*this, b * width, std::min(width, columns() - b * width));
      pack_columns(runs, call, kTileColumns, panels);
      for (size_t m = 0; m < channels; m += kTileRows) {
        const size_t rows = std::min(kTileRows, channels - m);
        multiply_strip(rows, runs.columns(), k_, weights + m * k_, kTileRows, panels, block, kMostColumns);
        finish_block(call, runs, call.group * channels + m, rows, block);
      }
    }
  });
}

void Conv::run_over_channels(const Call& call) const {
  const size_t channels = g_.out_channels / g_.groups;
  const float* weights = weights_.data() + call.group * panels_of(channels, kTileColumns) * kTileColumns * k_;
  const Runs runs(*this, 0, columns());
  pack_columns(runs, call, kTileRows, call.workspace);
  share(call.workers, panels_of(channels, kTileColumns), [&](size_t, size_t begin, size_t end) {
    alignas(64) float tile[kTileRows * kTileColumns] = {};
    alignas(64) float block[kTileColumns * kMostColumns] = {};
    for (size_t w = begin; w < end; ++w) {
      const size_t across = std::min(kTileColumns, channels - w * kTileColumns);
      for (size_t n = 0; n < columns(); n += kTileRows) {
        const size_t count = std::min(kTileRows, columns() - n);
        multiply_strip(count, across, k_, call.workspace + n * k_, kTileRows, weights + w * kTileColumns * k_, tile,
                       kTileColumns);
        for (size_t m = 0; m < across; ++m) {
          for (size_t c = 0; c < count; ++c) block[m * kMostColumns + n + c] = tile[c * kTileColumns + m];
        }
      }
      finish_block(call, runs, call.group * channels + w * kTileColumns, across, block);
    }
  });
}

// The stages over rows of the block, one row a channel, and every result to its place.
void Conv::finish_block(const Call& call, const Runs& runs, size_t channel, size_t channels, float* block) const {
  const size_t pixels = g_.out_h * g_.out_w;
  const auto write = [&](float* base) {
    for (size_t r = 0; r < channels; ++r) {
      for (const Runs::Run& run : runs) {
        copy_floats(base + (run.image * g_.out_channels + channel + r) * pixels + run.pixel,
                    block + r * kMostColumns + run.column, run.count);
      }
    }
  };
  const auto apply = [&](const Stage& stage) {
    for (size_t r = 0; r < channels; ++r) {
      float* row = block + r * kMostColumns;
      apply_stage(stage, row, row, runs.columns(), channel + r);
    }
  };
  run_epilogue(call.bias, call.epilogue, apply, write);
  write(call.out);
}

// Panels [k][width]: the input that meets tap k of each column, zeros behind the last column.
void Conv::pack_columns(const Runs& runs, const Call& call, size_t width, float* panels) const {
  const size_t last = (runs.columns() - 1) / width * width;
  if (runs.columns() % width != 0) zero(panels + last * k_, width * k_);
  for (const Runs::Run& run : runs) {
    if (pointwise_) {
      pack_pixels(call, run.image, run.pixel, run.count, width, run.column, panels);
      continue;
    }
    for (size_t i = 0; i < run.count;) {
      const size_t column = run.column + i;
      const size_t n = std::min(run.count - i, width - column % width);
      pack_taps(call, run.image, run.pixel + i, n, width, panels + column / width * width * k_ + column % width);
      i += n;
    }
  }
}

// A pointwise convolution: channel by channel, so that memory is read in long runs.
void Conv::pack_pixels(const Call& call, size_t image, size_t pixel, size_t count, size_t width, size_t column,
                       float* panels) const {
  const size_t pixels = g_.in_h * g_.in_w;
  const float* from = call.in + (image * g_.in_channels + call.group * k_) * pixels + pixel;
  for (size_t c = 0; c < k_; ++c) {
    const float* next = from + c * pixels;
    float* to = panels + column / width * width * k_ + c * width;
    size_t place = column % width;
    size_t left = count;
    for (; place == 0 && left >= width; left -= width) {
      if (width == kTileColumns) {
        for (size_t v = 0; v < kTileVectors; ++v) store(to + v * kLanes, load(next + v * kLanes));
      } else {
        for (size_t i = 0; i < width; ++i) to[i] = next[i];
      }
      next += width;
      to += width * k_;
    }
    for (; left > 0; --left) {
      to[place] = *next++;
      if (++place == width) {
        place = 0;
        to += width * k_;
      }
    }
  }
}

// `count` columns from `pixel` on, all in one output row.
void Conv::pack_taps(const Call& call, size_t image, size_t pixel, size_t count, size_t width, float* to) const {
  const size_t channels = g_.in_channels / g_.groups;
  const float* in = call.in + (image * g_.in_channels + call.group * channels) * g_.in_h * g_.in_w;
  const size_t first_y = pixel / g_.out_w * g_.stride_h;  // in padded coordinates
  const size_t first_x = pixel % g_.out_w * g_.stride_w;
  for (size_t kx = 0; kx < g_.kernel_w; ++kx) {
    // Columns [left, right) meet the input at this tap, the others meet the padding.
    const size_t x = first_x + kx * g_.dilation_w;
    const size_t missing = x < g_.pad_left ? g_.pad_left - x : 0;
    const size_t left = std::min(count, (missing + g_.stride_w - 1) / g_.stride_w);
    const size_t end = g_.pad_left + g_.in_w;
    const size_t fitting = x < end ? (end - x + g_.stride_w - 1) / g_.stride_w : 0;
    const size_t right = std::max(left, std::min(count, fitting));
    const size_t from_x = left < right ? x + left * g_.stride_w - g_.pad_left : 0;
    for (size_t c = 0; c < channels; ++c) {
      for (size_t ky = 0; ky < g_.kernel_h; ++ky) {
        const size_t y = first_y + ky * g_.dilation_h;
        float* row = to + ((c * g_.kernel_h + ky) * g_.kernel_w + kx) * width;
        if (y < g_.pad_top || y - g_.pad_top >= g_.in_h) {
          for (size_t i = 0; i < count; ++i) row[i] = 0.0f;
          continue;
        }
        for (size_t i = 0; i < left; ++i) row[i] = 0.0f;
        gather_floats(row + left, in + (c * g_.in_h + y - g_.pad_top) * g_.in_w + from_x, right - left, g_.stride_w);
        for (size_t i = right; i < count; ++i) row[i] = 0.0f;
      }
    }
  }
}

}  // namespace refrt
