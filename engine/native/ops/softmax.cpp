// exp(x - max) / sum along one axis. The sum runs in index order in float64 and is rounded once.
// Attribute `flatten` 1 is the meaning before opset 13: all dimensions from `axis` on are one.
#include "kernels/maths.h"
#include "ops/elementwise.h"

namespace refrt {
namespace {

class Softmax : public Operator {
 public:
  void prepare(PrepareContext& context) override {
    prepare_unary(context);
    const Tensor& in = context.input(0);
    const bool flatten = context.attributes->integer("flatten", 0) != 0;
    const int64_t axis = context.attributes->integer("axis", -1);
    context.require(axis >= -in.rank && axis < in.rank, "axis lies outside the input's rank");
    const int at = static_cast<int>(axis < 0 ? axis + in.rank : axis);
    outer_ = in.span(0, at);
    length_ = flatten ? in.span(at, in.rank) : in.dims[at];
    inner_ = flatten ? 1 : in.span(at + 1, in.rank);
  }

  void run(const RunContext& context) override {
    const float* in = context.inputs[0]->f32();
    float* out = context.outputs[0]->f32();
    const int64_t grain = kElementGrain / 8 / std::max<int64_t>(1, length_) + 1;
    context.threads->parallel(length_ == 0 ? 0 : outer_ * inner_, grain, [&](int64_t begin, int64_t end, int) {
      for (int64_t line = begin; line < end; ++line) {
        const int64_t start = line / inner_ * length_ * inner_ + line % inner_;
        run_line(in + start, out + start);
      }
    });
  }

 private:
  // A NaN anywhere makes the sum NaN, and with it the line; so does +inf (inf - inf).
  void run_line(const float* in, float* out) const {
    float largest = in[0];
    for (int64_t i = 1; i < length_; ++i) largest = in[i * inner_] > largest ? in[i * inner_] : largest;
    double sum = 0.0;
    for (int64_t i = 0; i < length_; ++i) {
      const float e = exponential(in[i * inner_] - largest);
      out[i * inner_] = e;
      sum += static_cast<double>(e);
    }
    const float total = static_cast<float>(sum);
    for (int64_t i = 0; i < length_; ++i) out[i * inner_] = out[i * inner_] / total;
  }

  int64_t outer_ = 0, length_ = 0, inner_ = 0;
};

}  // namespace

REFRT_OPERATOR("Softmax", Softmax);

}  // namespace refrt
