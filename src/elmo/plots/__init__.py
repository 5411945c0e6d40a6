"""Pictures: each has a function that draws into an Axes of yours, and one that writes a file."""

from elmo.plots.bars import draw_layer_weights, draw_scores, save_layer_weights, save_scores
from elmo.plots.curves import draw_curves, save_curves
from elmo.plots.heat_map import colour_limits, draw_heat_map, save_heat_maps
from elmo.plots.layer_curves import draw_layer_curves, save_layer_curves
from elmo.plots.projection import Projection, draw_projection, project, save_projection

__all__ = [
    "Projection",
    "colour_limits",
    "draw_curves",
    "draw_heat_map",
    "draw_layer_curves",
    "draw_layer_weights",
    "draw_projection",
    "draw_scores",
    "project",
    "save_curves",
    "save_heat_maps",
    "save_layer_curves",
    "save_layer_weights",
    "save_projection",
    "save_scores",
]
