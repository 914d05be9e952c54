// The pictures of the report that have axes: the roofline and the arena over time.

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/text.h"
#include "cli/report.h"
#include "runtime/arena.h"
#include "runtime/memory_report.h"

namespace rtx::cli {
namespace {

constexpr double width = 600, height = 360, left = 70, right = 20, top = 16, bottom = 44;

std::string text(double x, double y, std::string_view css_class, std::string_view content) {
  return fmt::format("<text class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n", css_class, x, y, html(content));
}

std::string line(double x0, double y0, double x1, double y1, std::string_view css_class) {
  return fmt::format("<line class=\"{}\" x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\"/>\n", css_class, x0,
                     y0, x1, y1);
}

std::string begin_chart(std::string_view label, double own_height = height) {
  return fmt::format(
      "<svg class=\"chart\" role=\"img\" aria-label=\"{}\" viewBox=\"0 0 {:.0f} {:.0f}\" width=\"{:.0f}\" "
      "height=\"{:.0f}\">\n",
      html(label), width, own_height, width, own_height);
}

std::string binary_size(double bytes) {
  constexpr const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  int unit = 0;
  while (bytes >= 1024 && unit < 5) bytes /= 1024, ++unit;
  return fmt::format("{:.4g} {}", bytes, units[unit]);
}

// A range of decades as a range of coordinates.
struct LogAxis {
  int low = 0, high = 0;  // powers of ten
  double from = 0, to = 0;

  double at(double value) const {
    const double share = (std::log10(value) - low) / (high - low);
    return from + (to - from) * std::clamp(share, 0.0, 1.0);
  }
};

// One kernel in the roofline.
struct Point {
  const package::Kernel* kernel = nullptr;
  double intensity = 0, rate = 0, ns = 0;
  int launches = 0;
};

std::vector<Point> points_of(std::span<const StepCost> costs) {
  std::map<const package::Kernel*, size_t> position;
  std::vector<Point> points;
  for (const StepCost& cost : costs) {
    if (cost.flops <= 0 || cost.bytes <= 0 || cost.ns <= 0) continue;
    const auto [known, is_new] = position.try_emplace(cost.kernel, points.size());
    if (is_new) points.push_back({cost.kernel, cost.flops / cost.bytes, cost.flops / cost.ns * 1e9, 0, 0});
    points[known->second].ns += cost.ns;
    ++points[known->second].launches;
  }
  return points;
}

}  // namespace

std::string scaled(double value) {
  constexpr const char* units[] = {"", "k", "M", "G", "T", "P"};
  int unit = 0;
  while (value >= 999.5 && unit < 5) value /= 1000, ++unit;
  return fmt::format("{:.4g} {}", value, units[unit]);
}

std::string roofline_svg(std::span<const StepCost> costs, const package::Gpu& gpu) {
  const std::vector<Point> points = points_of(costs);
  if (points.empty()) return "<p>No kernel does arithmetic at these sizes.</p>\n";
  const double bandwidth = gpu.reached_bytes_per_second();
  std::map<package::MathUnit, double> peaks;
  double low_x = 0.1, high_x = 1000, low_y = 1e11, total = 0;
  for (const Point& point : points) {
    peaks[point.kernel->unit] = gpu.peak(point.kernel->unit);
    low_x = std::min(low_x, point.intensity);
    high_x = std::max(high_x, point.intensity);
    low_y = std::min(low_y, point.rate);
    total += point.ns;
  }
  double highest = 0;
  for (const auto& [unit, peak] : peaks) highest = std::max(highest, peak);
  const auto decade = [](double value, bool up) {
    return static_cast<int>(up ? std::ceil(std::log10(value)) : std::floor(std::log10(value)));
  };
  const LogAxis x{decade(low_x, false), decade(high_x, true), left, width - right};
  const LogAxis y{decade(low_y, false), decade(highest * 1.01, true), height - bottom, top};
  std::string out = begin_chart(concat("roofline of ", gpu.name));
  for (int power = x.low; power <= x.high; ++power) {
    const double at = x.at(std::pow(10, power));
    out += line(at, top, at, height - bottom, "grid") +
           text(at, height - bottom + 16, "tick middle", fmt::format("{:g}", std::pow(10, power)));
  }
  for (int power = y.low; power <= y.high; ++power) {
    const double at = y.at(std::pow(10, power));
    out += line(left, at, width - right, at, "grid") + text(left - 6, at + 4, "tick end", scaled(std::pow(10, power)));
  }
  out +=
      text((left + width - right) / 2, height - 8, "tick middle", "arithmetic intensity, flops a byte of DRAM traffic");
  out +=
      fmt::format("<text class=\"tick middle\" transform=\"translate(14 {:.1f}) rotate(-90)\">flops a second</text>\n",
                  (top + height - bottom) / 2);
  // The slope up to the highest roof, then each roof from where it meets the slope.
  const double ridge = highest / bandwidth;
  const double x0 = std::max(std::pow(10, x.low), std::pow(10, y.low) / bandwidth);
  out += line(x.at(x0), y.at(x0 * bandwidth), x.at(ridge), y.at(highest), "roof");
  out += text(x.at(x0) + 40, y.at(x0 * bandwidth) + 6, "tick", concat("DRAM ", scaled(bandwidth), "B/s"));
  for (const auto& [unit, peak] : peaks) {
    out += line(x.at(peak / bandwidth), y.at(peak), width - right, y.at(peak), "roof");
    out += text(width - right - 4, y.at(peak) + 14, "tick end",
                concat(package::to_string(unit), " ", scaled(peak), "flop/s"));
  }
  for (const Point& point : points) {
    const double radius = 3.5 + 16 * std::sqrt(point.ns / total);
    out += fmt::format(
        "<circle class=\"dot {}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{:.1f}\"><title>{}\n{:.3g} flops a byte, {}flop/s, "
        "{} launches, "
        "{} together</title></circle>\n",
        kind_class(point.kernel->kind), x.at(point.intensity), y.at(point.rate), radius,
        html(concat(point.kernel->name, " ", point.kernel->plan)), point.intensity, scaled(point.rate), point.launches,
        time_text(point.ns));
  }
  return out + "</svg>\n";
}

std::string memory_svg(const package::Manifest& manifest, const package::Program& program,
                       std::span<const int64_t> symbols) {
  const Result<runtime::Arena> arena = runtime::lay_out_arena(program, symbols);
  const Result<runtime::MemoryReport> report = runtime::report_memory(program, symbols);
  if (!arena || !report) return "<p>The arena has no size at these dims.</p>\n";
  if (arena->bytes == 0 || program.steps.empty()) return "<p>The arena is empty.</p>\n";
  // First and last step of each buffer of the arena.
  struct Life {
    size_t first = 0, last = 0;
    bool made = false;
  };
  std::vector<Life> lives(program.buffers.size());
  for (size_t step = 0; step < program.steps.size(); ++step) {
    const package::Step& s = program.steps[step];
    for (const auto* list : {&s.operands, &s.results, &s.scratch}) {
      for (uint32_t buffer : *list) {
        if (!lives[buffer].made) lives[buffer] = {step, step, true};
        lives[buffer].last = step;
      }
    }
  }
  const double steps = static_cast<double>(program.steps.size()), bytes = static_cast<double>(arena->bytes);
  const double tall = 300, own_height = tall + top + bottom, each = (width - left - right) / steps;
  const auto y = [&](double offset) { return top + tall * (1 - offset / bytes); };
  std::string out = begin_chart("places in the arena over the steps of the program", own_height);
  for (int part = 0; part <= 4; ++part) {
    const double at = bytes * part / 4;
    out += line(left, y(at), width - right, y(at), "grid") + text(left - 6, y(at) + 4, "tick end", binary_size(at));
  }
  const size_t stride = std::max<size_t>(1, program.steps.size() / 24);
  for (size_t step = 0; step < program.steps.size(); step += stride)
    out += text(left + each * (static_cast<double>(step) + 0.5), own_height - bottom + 16, "tick middle", concat(step));
  out += text((left + width - right) / 2, own_height - 8, "tick middle", "step");
  for (size_t i = 0; i < program.buffers.size(); ++i) {
    const package::Buffer& buffer = program.buffers[i];
    if (buffer.kind != package::BufferKind::arena || !lives[i].made) continue;
    const Result<int64_t> size = buffer.bytes.evaluate(symbols);
    if (!size || *size <= 0) continue;
    const double offset = static_cast<double>(arena->offsets[buffer.index]), own = static_cast<double>(*size);
    const package::Kernel& kernel = manifest.kernels[program.steps[lives[i].first].kernel];
    out += fmt::format(
        "<rect class=\"life {}\" x=\"{:.1f}\" y=\"{:.2f}\" width=\"{:.1f}\" height=\"{:.2f}\"><title>{} at {}, of step "
        "{} "
        "({}), last read by step {}</title></rect>\n",
        kind_class(kernel.kind), left + each * static_cast<double>(lives[i].first), y(offset + own),
        std::max(1.0, each * static_cast<double>(lives[i].last - lives[i].first + 1) - 1),
        std::max(0.6, tall * own / bytes - 0.5), binary_size(own), arena->offsets[buffer.index], lives[i].first,
        html(kernel.kind), lives[i].last);
  }
  const double bound = static_cast<double>(report->lower_bound);
  out += line(left, y(std::min(bound, bytes)), width - right, y(std::min(bound, bytes)), "bound");
  out += "</svg>\n";
  return out +
         fmt::format(
             "<p>Arena {}, lower bound {} (dashed), {:.3f} of it. Colours are those of the kernels that write.</p>\n",
             binary_size(bytes), binary_size(bound), bound > 0 ? bytes / bound : 1.0);
}

}  // namespace rtx::cli
