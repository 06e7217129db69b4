"""Lightning on CPU, as its documentation writes a trainer: two devices, DDP."""

import lightning
import torch
from torch.utils.data import DataLoader, TensorDataset


class Regression(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(8, 1)

    def training_step(self, batch):
        x, y = batch
        return torch.nn.functional.mse_loss(self.layer(x), y)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


def main():
    lightning.seed_everything(7)
    x = torch.randn(64, 8)
    y = x.sum(1, keepdim=True)
    model = Regression()
    trainer = lightning.Trainer(
        accelerator="cpu",
        devices=2,
        strategy="ddp",
        max_epochs=3,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    before = torch.nn.functional.mse_loss(model.layer(x), y).item()
    trainer.fit(model, DataLoader(TensorDataset(x, y), batch_size=8))
    after = torch.nn.functional.mse_loss(model.layer(x), y).item()
    rank, local, world = trainer.global_rank, trainer.local_rank, trainer.world_size
    ends = f"before={before:.6f} after={after:.6f}"
    print(f"RESULT rank={rank} local={local} world={world} steps={trainer.global_step} {ends}")


main()
