#include <cmath>

#include "ops/elementwise.h"

namespace refrt {
namespace {

// IEEE: correctly rounded everywhere; -0 stays -0, below that NaN.
class Sqrt : public Operator {
 public:
  void prepare(PrepareContext& context) override { prepare_unary(context); }
  void run(const RunContext& context) override {
    run_map(context, [](float x) { return std::sqrt(x); });
  }
};

}  // namespace

REFRT_OPERATOR("Sqrt", Sqrt);

}  // namespace refrt
