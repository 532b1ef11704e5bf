#include "experts/blob.h"

#include <cstring>

namespace strata::experts {
namespace {

// A matrix as rows of a part; bias and scale are parts too, or -1.
struct MatrixParts {
  int weight;
  int64_t first_row;
  int64_t rows;
  int bias;
  int scale;
};
struct ExpertParts {
  MatrixParts gate, up, down;
};

ExpertParts parts_of(const LayerLayout& layer) {
  const auto rows_of = [&](int part) { return layer.parts[static_cast<size_t>(part)].rows; };
  const int fused = layer.index(PartKind::kGateUp);
  const int gate = fused >= 0 ? fused : layer.index(PartKind::kGate);
  const int up = fused >= 0 ? fused : layer.index(PartKind::kUp);
  const int down = layer.index(PartKind::kDown);
  const int64_t ffn = fused >= 0 ? rows_of(fused) / 2 : rows_of(gate);
  return {{gate, 0, ffn, layer.index(PartKind::kGateBias), layer.index(PartKind::kGateScale)},
          {up, fused >= 0 ? ffn : 0, ffn, layer.index(PartKind::kUpBias), layer.index(PartKind::kUpScale)},
          {down, 0, rows_of(down), layer.index(PartKind::kDownBias), layer.index(PartKind::kDownScale)}};
}

}  // namespace

device::ExpertBlob packed_blob(const LayerLayout& layer) {
  const auto offset = [&](int part) { return part < 0 ? -1 : static_cast<int64_t>(layer.part_offset(part)); };
  const auto matrix = [&](const MatrixParts& m) {
    const BlobPart& part = layer.parts[static_cast<size_t>(m.weight)];
    return device::ExpertMatrix{
        part.type,
        m.rows,
        part.cols,
        part.row_bytes,
        layer.part_offset(m.weight) + static_cast<size_t>(m.first_row) * part.row_bytes,
        offset(m.bias),
        offset(m.scale)};
  };
  const ExpertParts parts = parts_of(layer);
  return {matrix(parts.gate), matrix(parts.up), matrix(parts.down), layer.blob_bytes()};
}

void pack_blob(const LayerLayout& layer, const Lease& lease, std::span<std::byte> to, ThreadPool& pool) {
  ASSERT(to.size() == layer.blob_bytes());
  // Long enough that claiming a piece costs nothing beside copying it.
  constexpr int64_t kPieceBytes = 256 * 1024;
  for (size_t i = 0; i < layer.parts.size(); i++) {
    const std::byte* from = lease.part(static_cast<int>(i));
    std::byte* part = to.data() + layer.part_offset(static_cast<int>(i));
    pool.for_each(static_cast<int64_t>(layer.parts[i].bytes), kPieceBytes, [&](int64_t begin, int64_t end, int) {
      std::memcpy(part + begin, from + begin, static_cast<size_t>(end - begin));
    });
  }
}

device::host::PlacedExpert placed_blob(const LayerLayout& layer, const Lease& lease) {
  const auto address = [&](int part) { return part < 0 ? nullptr : lease.part(part); };
  const auto matrix = [&](const MatrixParts& m) {
    const BlobPart& part = layer.parts[static_cast<size_t>(m.weight)];
    const auto* data = reinterpret_cast<const uint8_t*>(lease.part(m.weight));
    return device::host::PlacedMatrix{
        {part.type, data + static_cast<size_t>(m.first_row) * part.row_bytes, m.rows, part.cols, part.row_bytes},
        address(m.bias),
        address(m.scale)};
  };
  const ExpertParts parts = parts_of(layer);
  return {matrix(parts.gate), matrix(parts.up), matrix(parts.down)};
}

}  // namespace strata::experts
