from tests.engine.native.ops.arithmetic import Arithmetic


class TestDiv(Arithmetic):
    op = "Div"
