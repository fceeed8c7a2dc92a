from tests.conftest import Workbench
def test_variant(workbench):
    s=workbench.session()
    s.execute("""CREATE TABLE w (ts TIMESTAMP, v VARIANT, WATERMARK FOR ts AS max(ts) OVER (ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)) APPEND ONLY;
    INSERT INTO w SELECT TIMESTAMP '2026-01-01 10:00:00', parse_json('{"a":1}');""")
    print(s.execute("SELECT * FROM w").rows())
