from tests.engine.native.ops.arithmetic import Arithmetic


class TestMul(Arithmetic):
    op = "Mul"
