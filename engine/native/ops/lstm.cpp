// LSTM (ONNX 7, 14): forward, reverse and bidirectional; default activations; no peepholes, clip, coupled gates or
// sequence_lens; layout 0. kernels/plain.h fixes the order of the operations.
#include <memory>
#include <string_view>

#include "kernels/lstm.h"
#include "kernels/pool.h"
#include "ops/op.h"

namespace refrt {
namespace {

bool has_shape(const Tensor& t, std::initializer_list<int64_t> dims) {
  return t.rank == static_cast<int>(dims.size()) && std::equal(dims.begin(), dims.end(), t.dims);
}

class LstmOperator : public Operator {
 public:
  void prepare(PrepareContext& context) override {
    context.expect_counts(3, 8, 3);
    refuse_options(context);
    const Tensor& x = context.input(0);
    const Tensor& w = context.input(1);
    const Tensor& r = context.input(2);
    context.require(x.rank == 3 && w.rank == 3 && r.rank == 3, "input, W and R need three dimensions");
    const std::string_view direction = context.attributes->text("direction", "forward");
    context.require(direction == "forward" || direction == "reverse" || direction == "bidirectional",
                    "direction is none of forward, reverse, bidirectional");
    const int64_t directions = direction == "bidirectional" ? 2 : 1, hidden = r.dims[2], input = x.dims[2];
    context.require(hidden >= 1 && hidden <= (1 << 24), "an unreasonable hidden size");
    context.require(context.attributes->integer("hidden_size", hidden) == hidden, "hidden_size differs from R");
    context.require(has_shape(w, {directions, 4 * hidden, input}), "W has other dimensions");
    context.require(has_shape(r, {directions, 4 * hidden, hidden}), "R has other dimensions");
    require_states(context, x.dims[0], directions, x.dims[1], hidden);
    LstmGeometry g;
    g.steps = static_cast<size_t>(x.dims[0]);
    g.batch = static_cast<size_t>(x.dims[1]);
    g.input = static_cast<size_t>(input);
    g.hidden = static_cast<size_t>(hidden);
    g.directions = static_cast<size_t>(directions);
    g.reverse = direction == "reverse";
    require_sizes(context, x, hidden);
    lstm_ = std::make_unique<Lstm>(g);
    constant_weights_ = w.constant && r.constant;
    if (constant_weights_) lstm_->pack(w.f32(), r.f32());
    context.request_workspace(static_cast<int64_t>(lstm_->workspace_floats() * sizeof(float)));
  }

  void run(const RunContext& context) override {
    const auto input = [&](size_t i) -> const float* {
      return i < inputs_ && context.inputs[i] != nullptr ? context.inputs[i]->f32() : nullptr;
    };
    const auto output = [&](size_t i) -> float* {
      return i < outputs_ && context.outputs[i] != nullptr ? context.outputs[i]->f32() : nullptr;
    };
    if (!constant_weights_) lstm_->pack(input(1), input(2));
    lstm_->run(input(3), LstmState{input(5), input(6)}, input(0), LstmOutputs{output(0), output(1), output(2)},
               static_cast<float*>(context.workspace), workers_of(*context.threads));
  }

 private:
  void refuse_options(PrepareContext& context) {
    context.expect_no_epilogue();
    inputs_ = context.inputs.size();
    outputs_ = context.outputs.size();
    if (context.has_input(4)) context.unsupported("sequence_lens");
    if (context.has_input(7)) context.unsupported("peepholes");
    for (const char* name : {"activations", "activation_alpha", "activation_beta", "clip"}) {
      if (context.attributes->has(name)) context.unsupported(std::string("attribute ") + name);
    }
    if (context.attributes->integer("input_forget", 0) != 0) context.unsupported("attribute input_forget");
    if (context.attributes->integer("layout", 0) != 0) context.unsupported("attribute layout");
  }

  // The gates of all steps are kept: refused where their size could overflow 32 bits on armv7.
  static void require_sizes(const PrepareContext& context, const Tensor& x, int64_t hidden) {
    const int64_t most = kMaxTensorBytes / static_cast<int64_t>(sizeof(float));
    const int64_t width = 4 * hidden + x.dims[2] + 1;
    if ((x.dims[0] + 2) > most / width / (x.dims[1] + 8)) context.unsupported("the sequence is too large");
  }

  void require_states(const PrepareContext& context, int64_t steps, int64_t directions, int64_t batch,
                      int64_t hidden) const {
    if (context.has_input(3))
      context.require(has_shape(context.input(3), {directions, 8 * hidden}), "B has other dimensions");
    for (size_t i : {size_t{5}, size_t{6}}) {
      if (!context.has_input(i)) continue;
      context.require(has_shape(context.input(i), {directions, batch, hidden}),
                      "an initial state has other dimensions");
    }
    for (size_t i = 0; i < outputs_; ++i) {
      if (context.outputs[i] == nullptr) continue;
      const Tensor& y = context.output(i);
      const bool fits =
          i == 0 ? has_shape(y, {steps, directions, batch, hidden}) : has_shape(y, {directions, batch, hidden});
      context.require(fits, "an output has other dimensions");
    }
  }

  std::unique_ptr<Lstm> lstm_;
  size_t inputs_ = 0, outputs_ = 0;
  bool constant_weights_ = false;
};

}  // namespace

REFRT_OPERATOR("LSTM", LstmOperator);

}  // namespace refrt
