"""What ``import ropewalk`` gives to notebooks: a model, a run of some texts, and what is read of them."""
