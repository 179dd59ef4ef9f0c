#include "ops/broadcast.h"

namespace refrt {
namespace {

class Mul : public Operator {
 public:
  void prepare(PrepareContext& context) override { broadcast_.prepare(context); }
  void run(const RunContext& context) override {
    broadcast_.run(context, [](float a, float b) { return a * b; });
  }

 private:
  Broadcast broadcast_;
};

}  // namespace

REFRT_OPERATOR("Mul", Mul);

}  // namespace refrt
