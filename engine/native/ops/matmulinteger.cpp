// MatMulInteger (ONNX 10): (a - a zero point) · (b - b zero point) as int32, exact; a sum never wraps around.
//
// uint8 and int8 may be mixed. The left zero point is one value or one a row, the right one value or one a column.
#include "ops/codematmul.h"

namespace refrt {
namespace {

class MatMulInteger : public Operator {
 public:
  void prepare(PrepareContext& context) override {
    context.expect_counts(2, 4);
    context.expect_no_epilogue();
    product_.prepare(context, {0, 2, 1, 3}, context.output(0, DType::int32));
    if (product_.products() > kMostInt32Products) context.unsupported("sums of more products than int32 holds");
  }

  void run(const RunContext& context) override {
    int32_t* out = static_cast<int32_t*>(context.outputs[0]->data);
    product_.run(context, [=](size_t at, size_t, size_t, int64_t sum) { out[at] = static_cast<int32_t>(sum); });
  }

 private:
  CodeMatmul product_;
};

}  // namespace

REFRT_OPERATOR("MatMulInteger", MatMulInteger);

}  // namespace refrt
