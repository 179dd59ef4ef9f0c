#include "ops/elementwise.h"

namespace refrt {
namespace {

class HardSigmoid : public Operator {
 public:
  void prepare(PrepareContext& context) override {
    prepare_unary(context);
    stage_.kind = StageKind::hard_sigmoid;
    stage_.alpha = context.attributes->number("alpha", 0.2f);
    stage_.beta = context.attributes->number("beta", 0.5f);
  }
  void run(const RunContext& context) override { run_stage(context, stage_); }

 private:
  Stage stage_;
};

}  // namespace

REFRT_OPERATOR("HardSigmoid", HardSigmoid);

}  // namespace refrt
