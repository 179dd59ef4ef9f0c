// Cast (ONNX 13): integers of up to 32 bits to float32, one conversion rounded half to even; nothing else.
#include <string>

#include "ops/affine.h"

namespace refrt {
namespace {

class Cast : public Operator {
 public:
  void prepare(PrepareContext& context) override {
    context.expect_counts(1, 1);
    context.expect_no_epilogue();
    const Tensor& x = *context.inputs[0];
    const Tensor& y = context.output(0);
    if (x.dtype != DType::uint8 && x.dtype != DType::int8 && x.dtype != DType::int32) {
      context.unsupported(std::string("casts ") + dtype_name(x.dtype) + " to float32; known: uint8, int8, int32");
    }
    context.require(same_shape(x, y), "input and output differ in shape");
  }

  void run(const RunContext& context) override {
    switch (context.inputs[0]->dtype) {
      case DType::uint8:
        return run_as<uint8_t>(context);
      case DType::int8:
        return run_as<int8_t>(context);
      default:
        return run_as<int32_t>(context);
    }
  }

 private:
  template <typename T>
  static void run_as(const RunContext& context) {
    const T* in = static_cast<const T*>(context.inputs[0]->data);
    float* out = context.outputs[0]->f32();
    context.threads->parallel(context.outputs[0]->count(), kAffineGrain, [=](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) out[i] = static_cast<float>(in[i]);
    });
  }
};

}  // namespace

REFRT_OPERATOR("Cast", Cast);

}  // namespace refrt
