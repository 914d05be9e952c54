// Where the pieces of a program's arena lie. A program lists them from the lowest address up; each is alive from the
// first step that writes it to the last that reads or writes it. A piece starts where the highest ends of those that
// come before it and are alive at a step when it is too; so pieces that are alive at once never overlap, whatever the
// sizes.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "runtime/package/manifest.h"

namespace rtx::package {

// Every piece, weight and allocation starts at a multiple of this many bytes.
inline constexpr int64_t alignment = 256;

// `bytes` rounded up to the alignment; E506 if it is negative or the result does not fit.
Result<int64_t> aligned(int64_t bytes);

// The steps at which a piece is alive, both included; none if last < first.
struct Life {
  int64_t first = 0, last = -1;
  bool operator==(const Life&) const = default;
};

// Of each piece.
std::vector<Life> arena_lives(const Program& program);

// For each piece some of those that come before it and are alive when it is: enough of them that, through one another,
// they stand for all.
std::vector<std::vector<uint32_t>> pieces_below(std::span<const Life> lives);

struct ArenaLayout {
  std::vector<int64_t> offsets;  // of each piece; 0 for one that is never alive
  int64_t bytes = 0;             // the highest end
};

// `bytes` of each piece, rounded up here. E506 if one is negative or the arena does not fit 64 bits.
Result<ArenaLayout> lay_out_pieces(std::span<const std::vector<uint32_t>> below, std::span<const Life> lives,
                                   std::span<const int64_t> bytes);

// The most bytes, each piece rounded up, that are alive at one step: no layout is smaller. Errors as above.
Result<int64_t> most_alive(std::span<const Life> lives, std::span<const int64_t> bytes);

}  // namespace rtx::package
