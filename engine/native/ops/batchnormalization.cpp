// y = (x * scale[c]) + shift[c]. The exporter computes scale and shift from the four ONNX parameters in float64.
#include "ops/elementwise.h"

namespace refrt {
namespace {

class BatchNormalization : public Operator {
 public:
  void prepare(PrepareContext& context) override {
    context.expect_counts(3, 3);
    context.expect_no_epilogue();
    const Tensor& in = context.input(0);
    context.require(in.rank >= 2 && same_shape(in, context.output(0)), "input and output differ in shape");
    channels_ = in.dims[1];
    rows_ = in.dims[0] * channels_;
    row_ = in.span(2, in.rank);
    for (size_t i = 1; i <= 2; ++i) {
      const Tensor& parameter = context.input(i);
      context.require(parameter.constant && parameter.rank == 1 && parameter.dims[0] == channels_,
                      "scale and shift must be constants with one value per channel");
    }
  }

  void run(const RunContext& context) override {
    Stage stage;
    stage.kind = StageKind::scale_shift;
    stage.scale = context.inputs[1]->f32();
    stage.shift = context.inputs[2]->f32();
    const float* in = context.inputs[0]->f32();
    float* out = context.outputs[0]->f32();
    const int64_t grain = kElementGrain / std::max<int64_t>(1, row_) + 1;
    context.threads->parallel(rows_, grain, [&](int64_t begin, int64_t end, int) {
      for (int64_t row = begin; row < end; ++row) {
        apply_stage(stage, in + row * row_, out + row * row_, static_cast<size_t>(row_),
                    static_cast<size_t>(row % channels_));
      }
    });
  }

 private:
  int64_t channels_ = 0;
  int64_t rows_ = 0;  // batch × channels
  int64_t row_ = 0;   // elements behind one channel
};

}  // namespace

REFRT_OPERATOR("BatchNormalization", BatchNormalization);

}  // namespace refrt
