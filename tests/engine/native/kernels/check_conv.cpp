#include <algorithm>

#include "check.h"
#include "conv.h"
#include "plain.h"

namespace check {

namespace {

using refrt::ConvGeometry;
using refrt::Stage;
using refrt::StageKind;

// Kernel, stride, dilation and padding are square unless `flat`, a 1-D convolution.
struct Case {
  size_t batch, in, out, h, w, kernel, stride, dilation, pad, groups;
  bool flat = false;
};

ConvGeometry geometry_of(const Case& c) {
  ConvGeometry g;
  const auto reach = [&](size_t n) { return (n + 2 * c.pad - (c.kernel - 1) * c.dilation - 1) / c.stride + 1; };
  g.batch = c.batch, g.in_channels = c.in, g.out_channels = c.out, g.groups = c.groups;
  g.in_h = c.flat ? 1 : c.h, g.in_w = c.w;
  g.kernel_h = c.flat ? 1 : c.kernel, g.kernel_w = c.kernel;
  g.stride_h = c.flat ? 1 : c.stride, g.stride_w = c.stride;
  g.dilation_h = c.flat ? 1 : c.dilation, g.dilation_w = c.dilation;
  g.pad_top = c.flat ? 0 : c.pad, g.pad_left = c.pad;
  g.out_h = c.flat ? 1 : reach(c.h), g.out_w = reach(c.w);
  return g;
}

const Case kCases[] = {
    // batch in out  h    w  k  s  d  p  groups
    {1, 3, 16, 31, 29, 3, 2, 1, 1, 1},         // first layer
    {1, 16, 7, 17, 19, 1, 1, 1, 0, 1},         // pointwise, odd channels
    {1, 127, 5, 9, 15, 1, 1, 1, 0, 1},         // pointwise, several blocks
    {3, 124, 128, 1, 1, 1, 1, 1, 0, 1},        // pointwise on single pixels
    {1, 5, 127, 1, 1, 1, 1, 1, 0, 1},          //
    {2, 8, 35, 5, 5, 1, 1, 1, 0, 1},           // few columns, two images
    {2, 3, 4, 40, 33, 1, 1, 1, 0, 1},          // block edges inside an image
    {1, 4, 6, 9, 9, 1, 2, 1, 0, 1},            // strided pointwise
    {1, 4, 6, 9, 9, 1, 1, 1, 1, 1},            // padded pointwise
    {1, 7, 3, 13, 11, 3, 1, 2, 2, 1},          // dilated
    {1, 2, 3, 12, 12, 5, 3, 1, 4, 1},          // more padding than a stride
    {2, 6, 4, 11, 10, 3, 1, 1, 1, 2},          // grouped
    {1, 12, 18, 6, 7, 3, 2, 1, 1, 3},          // grouped, few columns
    {1, 5, 5, 112, 40, 3, 1, 1, 1, 5},         // depthwise, several bands
    {1, 4, 4, 14, 14, 5, 1, 1, 2, 4},          // depthwise as in the smoke suite
    {2, 3, 3, 7, 7, 5, 1, 1, 2, 3},            // rows narrower than a vector
    {1, 3, 3, 5, 1, 3, 1, 1, 1, 3},            // one column
    {1, 3, 3, 6, 3, 3, 1, 1, 1, 3},            // rows that spill into the next
    {1, 4, 8, 15, 17, 3, 2, 1, 1, 4},          // two outputs a channel
    {1, 3, 3, 21, 23, 3, 3, 2, 3, 3},          // stride 3, dilated
    {1, 2, 2, 3, 1, 2, 4, 1, 4, 2},            // more padding than input
    {1, 3, 3, 4, 5, 1, 1, 1, 0, 3},            // one tap
    {5, 129, 128, 0, 4, 3, 1, 1, 1, 1, true},  // voice activity: runs of four
    {70, 5, 6, 0, 2, 3, 2, 1, 1, 1, true},     // runs of one
    {3, 1, 34, 0, 640, 256, 128, 1, 0, 1, true},
    {0, 3, 4, 5, 5, 3, 1, 1, 1, 1},  // nothing
};

std::string name_of(const Case& c, Values values) {
  char text[160];
  std::snprintf(
      text, sizeof text,
      "conv batch %zu channels %zu to %zu, %zux%zu, kernel %zu stride %zu dilation %zu pad %zu groups %zu, values %d",
      c.batch, c.in, c.out, c.h, c.w, c.kernel, c.stride, c.dilation, c.pad, c.groups, static_cast<int>(values));
  return text;
}

// Stages of every kind; the parameters must outlive the stages.
std::vector<Stage> stages_of(Random& random, const std::vector<float>& scale, const std::vector<float>& shift) {
  const StageKind kinds[] = {StageKind::scale_shift, StageKind::bias,         StageKind::relu,
                             StageKind::hard_swish,  StageKind::hard_sigmoid, StageKind::sigmoid};
  std::vector<Stage> stages(random.below(4));
  for (Stage& stage : stages) {
    stage.kind = kinds[random.below(6)];
    stage.scale = scale.data();
    stage.shift = shift.data();
    stage.alpha = 0.2f;
    stage.beta = 0.5f;
  }
  return stages;
}

// The stage on a whole tensor, element by element: what a stand-alone operator computes.
std::vector<float> apart(const ConvGeometry& g, const Stage& stage, std::vector<float> x) {
  const size_t pixels = g.out_h * g.out_w;
  for (size_t i = 0; i < x.size(); ++i) refrt::apply_stage(stage, &x[i], &x[i], 1, i / pixels % g.out_channels);
  return x;
}

void check_case(Report& report, const Case& c, Values values, size_t workers) {
  Random random(c.in * 1000 + c.w * 10 + static_cast<size_t>(values));
  const ConvGeometry g = geometry_of(c);
  const size_t k = g.in_channels / g.groups * g.kernel_h * g.kernel_w;
  const std::vector<float> in = numbers(random, g.batch * g.in_channels * g.in_h * g.in_w, values);
  const std::vector<float> weights = numbers(random, g.out_channels * k, values);
  const std::vector<float> bias = numbers(random, g.out_channels, values);
  const std::vector<float> scale = numbers(random, g.out_channels, Values::ordinary);
  const bool has_bias = random.below(2) == 0;
  const size_t count = g.batch * g.out_channels * g.out_h * g.out_w;
  const std::string name = name_of(c, values) + ", workers " + std::to_string(workers);

  refrt::Epilogue epilogue;
  epilogue.stages = stages_of(random, scale, bias);
  std::vector<std::vector<float>> taps(epilogue.stages.size() + 1, std::vector<float>(count));
  epilogue.raw_tap = taps[0].data();
  for (size_t i = 0; i < epilogue.stages.size(); ++i) epilogue.stages[i].tap = taps[i + 1].data();

  refrt::Conv conv(g);
  conv.pack(weights.data());
  std::vector<float> workspace(conv.workspace_floats(workers)), out(count), plain_run(count);
  const refrt::Workers pool = backwards_workers(&workers);
  conv.run(in.data(), has_bias ? bias.data() : nullptr, out.data(), &epilogue, workspace.data(), pool);

  std::vector<float> want(count);
  refrt::plain::conv(g, in.data(), weights.data(), has_bias ? bias.data() : nullptr, want.data());
  report.equal(name + ": raw result", taps[0], want);
  for (size_t i = 0; i < epilogue.stages.size(); ++i) {
    want = apart(g, epilogue.stages[i], want);
    report.equal(name + ": stage " + std::to_string(i), taps[i + 1], want);
    epilogue.stages[i].tap = nullptr;
  }
  report.equal(name + ": output", out, want);
  epilogue.raw_tap = nullptr;
  conv.run(in.data(), has_bias ? bias.data() : nullptr, plain_run.data(), &epilogue, workspace.data(), pool);
  report.equal(name + ": output without taps", plain_run, want);
}

}  // namespace

void conv(Report& report) {
  for (const Case& c : kCases) {
    for (const Values values : {Values::ordinary, Values::tiny, Values::awkward}) {
      for (const size_t workers : {size_t{1}, size_t{3}}) check_case(report, c, values, workers);
    }
  }
}

}  // namespace check
