// A directed graph without cycles as a picture: nodes in ranks from top to bottom, edges as curves.
#pragma once

#include <string>
#include <vector>

namespace rtx::cli {

struct GraphNode {
  std::string title, detail;  // plain text: two lines in the box
  std::string tooltip;        // plain text
  std::string css_class;
  std::string href;  // "#id" within the page; may be empty
  std::vector<size_t> sources;
};

struct GraphStyle {
  double box_width = 150, box_height = 34, gap_x = 16, gap_y = 24;
  std::string label;  // what the picture shows, for readers that do not see it
};

// Nodes stand after their sources. Equal graphs give equal pictures.
std::string layered_svg(const std::vector<GraphNode>& nodes, const GraphStyle& style);

}  // namespace rtx::cli
