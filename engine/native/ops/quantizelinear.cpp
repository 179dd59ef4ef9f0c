// y = saturate(round_half_even(x / scale) + zero point): one IEEE division, the rounding of IEEE, and a clamp before
// the conversion, so that no chip's own out-of-range conversion is ever used. NaN becomes the zero point.
#include <limits>

#include "ops/affine.h"

namespace refrt {
namespace {

class QuantizeLinear : public Operator {
 public:
  void prepare(PrepareContext& context) override {
    context.require(context.outputs.size() == 1 && context.outputs[0] != nullptr, "one output is needed");
    type_ = context.outputs[0]->dtype;
    if (type_ != DType::uint8 && type_ != DType::int8) {
      context.unsupported(std::string("quantises to ") + dtype_name(type_) + "; known: uint8, int8");
    }
    affine_ = prepare_affine(context, context.input(0), context.output(0, type_));
  }

  void run(const RunContext& context) override {
    type_ == DType::uint8 ? run_as<uint8_t>(context) : run_as<int8_t>(context);
  }

 private:
  template <typename T>
  void run_as(const RunContext& context) {
    const float* in = context.inputs[0]->f32();
    T* out = static_cast<T*>(context.outputs[0]->data);
    const T* zeros = static_cast<const T*>(affine_.zero);
    constexpr float kLeast = std::numeric_limits<T>::min();
    constexpr float kMost = std::numeric_limits<T>::max();
    context.threads->parallel(context.outputs[0]->count(), kAffineGrain, [&](int64_t begin, int64_t end, int) {
      affine_.runs(begin, end, [=, scales = affine_.scale](size_t channel, int64_t from, int64_t to) {
        const float zero = zeros[channel], scale = scales[channel];
        for (int64_t i = from; i < to; ++i) {
          const float scaled = std::nearbyint(in[i] / scale) + zero;
          const float kept = scaled < kLeast ? kLeast : scaled > kMost ? kMost : scaled;
          out[i] = static_cast<T>(kept == kept ? kept : zero);
        }
      });
    });
  }

  DType type_ = DType::uint8;
  Affine affine_;
};

}  // namespace

REFRT_OPERATOR("QuantizeLinear", QuantizeLinear);

}  // namespace refrt
