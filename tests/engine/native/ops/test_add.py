from tests.engine.native.ops.arithmetic import Arithmetic


class TestAdd(Arithmetic):
    op = "Add"
