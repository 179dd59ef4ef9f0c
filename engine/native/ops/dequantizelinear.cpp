// y = (x - zero point) * scale: exact integers, one conversion and one IEEE multiplication.
#include "ops/affine.h"

namespace refrt {
namespace {

class DequantizeLinear : public Operator {
 public:
  void prepare(PrepareContext& context) override {
    context.require(!context.inputs.empty() && context.inputs[0] != nullptr, "one input is needed");
    type_ = context.inputs[0]->dtype;
    if (type_ != DType::uint8 && type_ != DType::int8 && type_ != DType::int32) {
      context.unsupported(std::string("dequantises ") + dtype_name(type_) + "; known: uint8, int8, int32");
    }
    affine_ = prepare_affine(context, context.output(0), context.input(0, type_));
  }

  void run(const RunContext& context) override {
    if (type_ == DType::uint8) {
      run_as<uint8_t>(context);
    } else if (type_ == DType::int8) {
      run_as<int8_t>(context);
    } else {
      run_as<int32_t>(context);
    }
  }

 private:
  template <typename T>
  void run_as(const RunContext& context) {
    const T* in = static_cast<const T*>(context.inputs[0]->data);
    float* out = context.outputs[0]->f32();
    const T* zeros = static_cast<const T*>(affine_.zero);
    context.threads->parallel(context.outputs[0]->count(), kAffineGrain, [&](int64_t begin, int64_t end, int) {
      affine_.runs(begin, end, [=, scales = affine_.scale](size_t channel, int64_t from, int64_t to) {
        const int64_t zero = zeros[channel];
        const float scale = scales[channel];
        for (int64_t i = from; i < to; ++i) out[i] = static_cast<float>(static_cast<int64_t>(in[i]) - zero) * scale;
      });
    });
  }

  DType type_ = DType::uint8;
  Affine affine_;
};

}  // namespace

REFRT_OPERATOR("DequantizeLinear", DequantizeLinear);

}  // namespace refrt
