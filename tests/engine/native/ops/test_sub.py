from tests.engine.native.ops.arithmetic import Arithmetic


class TestSub(Arithmetic):
    op = "Sub"
