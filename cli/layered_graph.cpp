#include "cli/layered_graph.h"

#include <fmt/core.h>

#include <algorithm>

#include "cli/report.h"

namespace rtx::cli {
namespace {

// A box, or a place where a long edge passes through a rank.
struct Place {
  size_t node = 0;
  bool is_box = false;
  size_t rank = 0;
  std::vector<size_t> above, below;  // places of the neighbouring ranks that are connected
  double x = 0;                      // of its centre
};

class Layout {
 public:
  Layout(const std::vector<GraphNode>& nodes, const GraphStyle& style) : nodes_(nodes), style_(style) {
    place_boxes();
    connect();
    for (int sweep = 0; sweep < 12; ++sweep) order(sweep % 2 == 0);
    for (int sweep = 0; sweep < 24; ++sweep) align(sweep % 2 == 0);
    double left = 1e9;
    for (const Place& place : places_) left = std::min(left, place.x - half_width(place));
    for (Place& place : places_) {
      place.x -= left - margin;
      width_ = std::max(width_, place.x + half_width(place) + margin);
    }
  }

  std::string svg() const {
    const double height =
        2 * margin + static_cast<double>(ranks_.size()) * (style_.box_height + style_.gap_y) - style_.gap_y;
    std::string out = fmt::format(
        "<svg class=\"graph\" role=\"img\" aria-label=\"{}\" viewBox=\"0 0 {:.0f} {:.0f}\" width=\"{:.0f}\" "
        "height=\"{:.0f}\">\n",
        html(style_.label), width_, height, width_, height);
    for (const Place& place : places_)
      for (size_t below : place.below) out += edge(place, places_[below]);
    for (const Place& place : places_)
      if (place.is_box) out += box(place);
    return out + "</svg>\n";
  }

 private:
  static constexpr double margin = 6, passing_width = 14;

  double half_width(const Place& place) const { return (place.is_box ? style_.box_width : passing_width) / 2; }
  double top(const Place& place) const {
    return margin + static_cast<double>(place.rank) * (style_.box_height + style_.gap_y);
  }

  void place_boxes() {
    std::vector<size_t> rank(nodes_.size(), 0);
    for (size_t i = 0; i < nodes_.size(); ++i)
      for (size_t source : nodes_[i].sources) rank[i] = std::max(rank[i], rank[source] + 1);
    // A node without sources stands right above its first reader.
    for (size_t i = nodes_.size(); i-- > 0;) {
      if (!nodes_[i].sources.empty()) continue;
      size_t first = nodes_.size();
      for (size_t reader = i + 1; reader < nodes_.size(); ++reader)
        if (std::find(nodes_[reader].sources.begin(), nodes_[reader].sources.end(), i) != nodes_[reader].sources.end())
          first = std::min(first, rank[reader]);
      if (first < nodes_.size() && first > 0) rank[i] = first - 1;
    }
    for (size_t i = 0; i < nodes_.size(); ++i) add_place({i, true, rank[i], {}, {}, 0});
  }

  size_t add_place(Place place) {
    if (ranks_.size() <= place.rank) ranks_.resize(place.rank + 1);
    ranks_[place.rank].push_back(places_.size());
    places_.push_back(std::move(place));
    return places_.size() - 1;
  }

  void connect() {
    for (size_t i = 0; i < nodes_.size(); ++i) {
      std::vector<size_t> sources = nodes_[i].sources;
      std::sort(sources.begin(), sources.end());
      sources.erase(std::unique(sources.begin(), sources.end()), sources.end());
      for (size_t source : sources) {
        size_t from = source;  // boxes are the first places, in the order of nodes
        for (size_t rank = places_[source].rank + 1; rank < places_[i].rank; ++rank) {
          const size_t passing = add_place({source, false, rank, {}, {}, 0});
          join(from, passing);
          from = passing;
        }
        join(from, i);
      }
    }
  }

  void join(size_t above, size_t below) {
    places_[above].below.push_back(below);
    places_[below].above.push_back(above);
  }

  // Orders each rank by where the neighbours in the rank before it stand on average.
  void order(bool downward) {
    const size_t count = ranks_.size();
    for (size_t step = 0; step < count; ++step) {
      std::vector<size_t>& rank = ranks_[downward ? step : count - 1 - step];
      std::vector<std::pair<double, size_t>> keys;
      for (size_t i = 0; i < rank.size(); ++i) {
        const Place& place = places_[rank[i]];
        const std::vector<size_t>& neighbours = downward ? place.above : place.below;
        double sum = 0;
        for (size_t neighbour : neighbours) sum += places_[neighbour].x;
        keys.emplace_back(neighbours.empty() ? place.x : sum / static_cast<double>(neighbours.size()), rank[i]);
      }
      std::stable_sort(keys.begin(), keys.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
      double x = 0;
      for (size_t i = 0; i < rank.size(); ++i) {
        rank[i] = keys[i].second;
        x += half_width(places_[rank[i]]);
        places_[rank[i]].x = x;
        x += half_width(places_[rank[i]]) + style_.gap_x;
      }
      for (size_t place : rank) places_[place].x -= x / 2;
    }
  }

  // Moves places towards their neighbours without changing their order.
  void align(bool downward) {
    const size_t count = ranks_.size();
    for (size_t step = 0; step < count; ++step) {
      const std::vector<size_t>& rank = ranks_[downward ? step : count - 1 - step];
      std::vector<double> wanted;
      for (size_t index : rank) {
        const Place& place = places_[index];
        double sum = 0, weight = 0;
        for (const auto* neighbours : {&place.above, &place.below}) {
          const double each = neighbours == (downward ? &place.above : &place.below) ? 2 : 1;
          for (size_t neighbour : *neighbours) sum += each * places_[neighbour].x, weight += each;
        }
        wanted.push_back(weight > 0 ? sum / weight : place.x);
      }
      // From the left every place as far as it must, from the right likewise; the mean keeps both distances.
      std::vector<double> low = wanted, high = wanted;
      const auto distance = [&](size_t i) {
        return half_width(places_[rank[i]]) + half_width(places_[rank[i + 1]]) + style_.gap_x;
      };
      for (size_t i = 0; i + 1 < rank.size(); ++i) low[i + 1] = std::max(low[i + 1], low[i] + distance(i));
      for (size_t i = rank.size(); i-- > 1;) high[i - 1] = std::min(high[i - 1], high[i] - distance(i - 1));
      for (size_t i = 0; i < rank.size(); ++i) places_[rank[i]].x = (low[i] + high[i]) / 2;
    }
  }

  std::string edge(const Place& from, const Place& to) const {
    const double y0 = top(from) + (from.is_box ? style_.box_height : style_.box_height / 2);
    const double y1 = top(to) + (to.is_box ? 0 : style_.box_height / 2), half = (y1 - y0) / 2;
    return fmt::format("<path class=\"edge\" d=\"M{:.1f} {:.1f}C{:.1f} {:.1f} {:.1f} {:.1f} {:.1f} {:.1f}\"/>\n",
                       from.x, y0, from.x, y0 + half, to.x, y1 - half, to.x, y1);
  }

  // At about 6.2 units a character, as many as fit.
  std::string fitted(const std::string& text, double character) const {
    const size_t most = static_cast<size_t>((style_.box_width - 10) / character);
    return text.size() <= most ? text : text.substr(0, most - 2) + "..";
  }

  std::string box(const Place& place) const {
    const GraphNode& node = nodes_[place.node];
    const double x = place.x - style_.box_width / 2, y = top(place);
    std::string out = fmt::format(
        "<g class=\"{}\"><title>{}</title><rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.0f}\" height=\"{:.0f}\" "
        "rx=\"4\"/>\n<text x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n<text class=\"small\" x=\"{:.1f}\" "
        "y=\"{:.1f}\">{}</text></g>\n",
        node.css_class, html(node.tooltip), x, y, style_.box_width, style_.box_height, place.x, y + 15,
        html(fitted(node.title, 7)), place.x, y + 28, html(fitted(node.detail, 5.4)));
    return node.href.empty() ? out : fmt::format("<a href=\"{}\">{}</a>", html(node.href), out);
  }

  const std::vector<GraphNode>& nodes_;
  const GraphStyle& style_;
  std::vector<Place> places_;
  std::vector<std::vector<size_t>> ranks_;
  double width_ = 0;
};

}  // namespace

std::string layered_svg(const std::vector<GraphNode>& nodes, const GraphStyle& style) {
  return nodes.empty() ? std::string() : Layout(nodes, style).svg();
}

}  // namespace rtx::cli
