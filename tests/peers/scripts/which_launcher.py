"""Says whose worker it is."""

import os

launcher = "flota" if "FLOTA_RANK" in os.environ else "paddle"
print(f"RESULT launcher={launcher} rank={os.environ['PADDLE_TRAINER_ID']}")
