#include "ops/elementwise.h"

namespace refrt {
namespace {

class HardSwish : public Operator {
 public:
  void prepare(PrepareContext& context) override { prepare_unary(context); }
  void run(const RunContext& context) override {
    Stage stage;
    stage.kind = StageKind::hard_swish;
    run_stage(context, stage);
  }
};

}  // namespace

REFRT_OPERATOR("HardSwish", HardSwish);

}  // namespace refrt
