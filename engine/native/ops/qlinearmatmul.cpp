// QLinearMatMul (ONNX 10, 21): codes in, codes out. The sums are exact whatever their length; codes.h says how they
// become codes. uint8 and int8 may be mixed; scales are float32.
//
// Scales and zero points of a and y are one value or one a row, those of b one value or one a column.
#include "ops/codematmul.h"

namespace refrt {
namespace {

class QLinearMatMul : public Operator {
 public:
  void prepare(PrepareContext& context) override {
    context.expect_counts(8, 8);
    context.expect_no_epilogue();
    const DType type = code_input(context, kYZero).dtype;
    product_.prepare(context, {kA, kAZero, kB, kBZero}, context.output(0, type));
    a_scale_ = PerLine::of_rows(context, &context.input(kAScale), product_.rows());
    b_scale_ = PerLine::of_columns(context, &context.input(kBScale), product_.columns());
    y_scale_ = PerLine::of_rows(context, &context.input(kYScale), product_.rows());
    y_zero_ = PerLine::of_rows(context, context.inputs[kYZero], product_.rows());
    requantise_ = Requantise::to(type);
  }

  void run(const RunContext& context) override {
    Tensor* const* in = context.inputs;
    uint8_t* out = static_cast<uint8_t*>(context.outputs[0]->data);
    product_.run(context, [&](size_t at, size_t row, size_t column, int64_t sum) {
      const float scale = a_scale_.scale(in[kAScale], row) * b_scale_.scale(in[kBScale], column);
      out[at] = requantise_(sum, scale / y_scale_.scale(in[kYScale], row), y_zero_.zero(in[kYZero], row));
    });
  }

 private:
  enum : size_t { kA, kAScale, kAZero, kB, kBScale, kBZero, kYScale, kYZero };

  CodeMatmul product_;
  PerLine a_scale_, b_scale_, y_scale_, y_zero_;
  Requantise requantise_;
};

}  // namespace

REFRT_OPERATOR("QLinearMatMul", QLinearMatMul);

}  // namespace refrt
