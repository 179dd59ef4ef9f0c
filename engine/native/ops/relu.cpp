#include "ops/elementwise.h"

namespace refrt {
namespace {

class Relu : public Operator {
 public:
  void prepare(PrepareContext& context) override { prepare_unary(context); }
  void run(const RunContext& context) override {
    Stage stage;
    stage.kind = StageKind::relu;
    run_stage(context, stage);
  }
};

}  // namespace

REFRT_OPERATOR("Relu", Relu);

}  // namespace refrt
