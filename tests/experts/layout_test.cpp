// Where the bytes of experts lie, for every form in which files hold them, and what is refused.
#include <algorithm>

#include "experts/support.h"

namespace strata::test {
namespace {

using experts::ExpertLayout;
using experts::LayerLayout;
using experts::PartKind;
using Form = ExpertSpec::Form;
using Tensors = std::vector<TensorSpec>;

constexpr PartKind kPlainParts[] = {PartKind::kGate, PartKind::kUp, PartKind::kDown};
constexpr PartKind kAllParts[] = {PartKind::kGate,     PartKind::kUp,        PartKind::kDown,
                                  PartKind::kGateBias, PartKind::kUpBias,    PartKind::kDownBias,
                                  PartKind::kGateScale, PartKind::kUpScale,  PartKind::kDownScale};

// Whether all bytes of a place carry the number.
void expect_number(const gguf::Model& model, const experts::BlobPart::Place& place, size_t bytes, uint8_t number) {
  std::vector<std::byte> found(bytes);
  const gguf::Shard& shard = model.shards()[static_cast<size_t>(place.shard)];
  ASSERT_TRUE(shard.file->read_exact(place.offset, found).ok());
  EXPECT_EQ(std::count(found.begin(), found.end(), std::byte{number}), static_cast<std::ptrdiff_t>(bytes));
}

void expect_places(const ExpertModel& m, std::span<const PartKind> kinds) {
  ASSERT_EQ(m.layout.layers().size(), static_cast<size_t>(m.spec.n_layers));
  for (int32_t l = 0; l < m.spec.n_layers; l++) {
    const LayerLayout& layer = m.layout.layer(l);
    EXPECT_EQ(layer.n_experts, m.spec.n_experts);
    EXPECT_EQ(layer.parts.size(), kinds.size());
    for (const PartKind kind : kinds) {
      const experts::BlobPart* part = layer.find(kind);
      ASSERT_NE(part, nullptr) << static_cast<int>(kind);
      EXPECT_EQ(part->type, part_type(m.spec, kind));
      EXPECT_EQ(part->bytes, part_bytes(m.spec, kind));
      EXPECT_EQ(part->row_bytes * static_cast<size_t>(part->rows), part->bytes);
      ASSERT_EQ(part->places.size(), static_cast<size_t>(m.spec.n_experts));
      for (int32_t e = 0; e < m.spec.n_experts; e++) {
        expect_number(*m.model, part->places[static_cast<size_t>(e)], part->bytes, part_number({l, e}, kind));
      }
    }
  }
}

TEST(Layout, MergedTensorsInOneAndThreeFiles) {
  for (const int n_files : {1, 3}) {
    expect_places(ExpertModel({.n_layers = 3}, numbered_parts(), n_files), kPlainParts);
    expect_places(ExpertModel({.n_layers = 2, .biases = true, .scales = true}, numbered_parts(), n_files), kAllParts);
    expect_places(
        ExpertModel({.gate_up_type = quant::Type::Q8_0, .down_type = quant::Type::MXFP4}, numbered_parts(), n_files),
        kPlainParts);
  }
}

TEST(Layout, OneTensorPerExpertInAnyOrder) {
  for (const int n_files : {1, 3}) {
    expect_places(ExpertModel({.form = Form::kSeparate, .n_layers = 2, .n_experts = 11}, numbered_parts(), n_files),
                  kPlainParts);
  }
}

TEST(Layout, FusedGateAndUp) {
  const ExpertModel m({.form = Form::kFused, .n_layers = 2}, numbered_parts());
  for (int32_t l = 0; l < 2; l++) {
    const LayerLayout& layer = m.layout.layer(l);
    ASSERT_EQ(layer.parts.size(), 2u);
    EXPECT_EQ(layer.find(PartKind::kGate), nullptr);
    EXPECT_EQ(layer.index(PartKind::kGate), -1);
    const experts::BlobPart* both = layer.find(PartKind::kGateUp);
    ASSERT_NE(both, nullptr);
    EXPECT_EQ(both->rows, 2 * m.spec.ffn);
    EXPECT_EQ(both->cols, m.spec.dim);
    for (int32_t e = 0; e < m.spec.n_experts; e++) {
      experts::BlobPart::Place place = both->places[static_cast<size_t>(e)];
      expect_number(*m.model, place, both->bytes / 2, part_number({l, e}, PartKind::kGate));
      place.offset += both->bytes / 2;
      expect_number(*m.model, place, both->bytes / 2, part_number({l, e}, PartKind::kUp));
    }
  }
}

TEST(Layout, PartsOfABlobAreAligned) {
  // 32 x 48 in Q8_0 has 1632 bytes; biases 192 and 128; scales 4.
  const ExpertModel m({.n_layers = 2, .ffn = 48, .gate_up_type = quant::Type::Q8_0, .biases = true, .scales = true},
                      numbered_parts());
  const LayerLayout& layer = m.layout.layer(0);
  size_t end = 0;
  for (int i = 0; i < static_cast<int>(layer.parts.size()); i++) {
    const size_t offset = layer.part_offset(i);
    EXPECT_EQ(offset % experts::kPartAlignment, 0u);
    EXPECT_GE(offset, end);
    EXPECT_LT(offset, end + experts::kPartAlignment);
    end = offset + layer.parts[static_cast<size_t>(i)].bytes;
  }
  EXPECT_EQ(layer.part_offset(1), 1664u);
  EXPECT_GE(layer.blob_bytes(), end);
  EXPECT_EQ(layer.blob_bytes() % experts::kPartAlignment, 0u);
  EXPECT_EQ(m.layout.largest_blob_bytes(), layer.blob_bytes());
  EXPECT_EQ(m.layout.total_bytes(), 2 * 4 * layer.blob_bytes());
}

TEST(Layout, LayersWithoutExpertsAreDense) {
  ExpertFiles files(expert_tensors({.n_layers = 1}, numbered_parts()), 1);
  const auto model = gguf::Model::open(files.path(), files.system()).value();
  const auto layout = ExpertLayout::from_model(*model, 3, 32, 64, 4);
  ASSERT_TRUE(layout.ok());
  EXPECT_EQ(layout->layer(0).n_experts, 4);
  EXPECT_EQ(layout->layer(1).n_experts, 0);
  EXPECT_TRUE(layout->layer(2).parts.empty());
  EXPECT_EQ(layout->layer(2).blob_bytes(), 0u);
}

// Tensors that are right until `change` has been at them.
Result<ExpertLayout> layout_after(const ExpertSpec& spec, const std::function<void(Tensors&)>& change) {
  Tensors tensors = expert_tensors(spec, numbered_parts());
  change(tensors);
  ExpertFiles files(tensors, 1);
  auto model = gguf::Model::open(files.path(), files.system());
  if (!model.ok()) {
    ADD_FAILURE() << "the file itself is refused: " << model.error().message;
    return model.error();
  }
  return ExpertLayout::from_model(**model, spec.n_layers, spec.dim, spec.ffn, spec.n_experts);
}

TensorSpec& named(Tensors& tensors, const std::string& name) {
  const auto found = std::find_if(tensors.begin(), tensors.end(), [&](const TensorSpec& t) { return t.name == name; });
  EXPECT_NE(found, tensors.end()) << name;
  return *found;
}
void reshape(Tensors& tensors, const std::string& name, std::vector<uint64_t> ne) {
  TensorSpec& tensor = named(tensors, name);
  tensor.ne = std::move(ne);
  tensor.data.reset();
}
void retype(Tensors& tensors, const std::string& name, quant::Type type) {
  TensorSpec& tensor = named(tensors, name);
  tensor.type = static_cast<uint32_t>(type);
  tensor.data.reset();
}
void remove(Tensors& tensors, const std::string& name) {
  std::erase_if(tensors, [&](const TensorSpec& t) { return t.name == name; });
}

TEST(Layout, WrongShapesOfMergedTensors) {
  const ExpertSpec spec{.biases = true, .scales = true};
  struct Wrong {
    const char* tensor;
    std::vector<uint64_t> ne;
    const char* found;
    const char* expected;
  };
  const Wrong wrongs[] = {
      {"blk.0.ffn_gate_exps.weight", {32, 64, 5}, "[32, 64, 5]", "[32, 64, 4]"},
      {"blk.0.ffn_gate_exps.weight", {32, 65, 4}, "[32, 65, 4]", "[32, 64, 4]"},
      {"blk.0.ffn_up_exps.weight", {64, 32, 4}, "[64, 32, 4]", "[32, 64, 4]"},
      {"blk.0.ffn_down_exps.weight", {32, 64, 4}, "[32, 64, 4]", "[64, 32, 4]"},
      {"blk.0.ffn_gate_exps.bias", {32, 4}, "[32, 4, 1]", "[64, 4]"},
      {"blk.0.ffn_down_exps.bias", {32, 3}, "[32, 3, 1]", "[32, 4]"},
      {"blk.0.ffn_up_exps.bias", {64, 4, 2}, "[64, 4, 2]", "[64, 4]"},
      {"blk.0.ffn_up_exps.scale", {3}, "[3, 1, 1]", "[4]"},
      {"blk.0.ffn_up_exps.scale", {2, 1, 2}, "[2, 1, 2]", "[4]"},
  };
  for (const Wrong& w : wrongs) {
    expect_error(layout_after(spec, [&](Tensors& t) { reshape(t, w.tensor, w.ne); }), ErrorCode::kBadInput,
                 {"/models/moe.gguf", w.tensor, w.found, w.expected});
  }
  expect_error(layout_after({}, [](Tensors& t) { reshape(t, "blk.0.ffn_up_exps.weight", {32, 64, 4, 2}); }),
               ErrorCode::kBadInput, {"blk.0.ffn_up_exps.weight"});
  expect_error(layout_after({.form = Form::kFused},
                            [](Tensors& t) {
                              reshape(t, "blk.0.ffn_gate_up_exps.weight", {32, 64, 4});
                            }),
               ErrorCode::kBadInput, {"blk.0.ffn_gate_up_exps.weight", "[32, 128, 4]"});
}

TEST(Layout, WrongShapesOfSeparateTensors) {
  const ExpertSpec spec{.form = Form::kSeparate};
  const std::vector<std::vector<uint64_t>> wrongs = {{32, 63}, {64, 32}, {32, 64, 2}, {32, 64, 1, 2}};
  for (const std::vector<uint64_t>& ne : wrongs) {
    for (const char* tensor : {"blk.0.ffn_gate.0.weight", "blk.0.ffn_up.3.weight"}) {
      expect_error(layout_after(spec, [&](Tensors& t) { reshape(t, tensor, ne); }), ErrorCode::kBadInput,
                   {"/models/moe.gguf", tensor, "[32, 64]"});
    }
  }
  expect_error(layout_after(spec, [](Tensors& t) { retype(t, "blk.0.ffn_down.2.weight", quant::Type::F16); }),
               ErrorCode::kBadInput, {"blk.0.ffn_down.2.weight", "one type"});
}

TEST(Layout, MissingTensors) {
  for (const char* tensor : {"blk.0.ffn_gate_exps.weight", "blk.0.ffn_up_exps.weight", "blk.0.ffn_down_exps.weight"}) {
    expect_error(layout_after({}, [&](Tensors& t) { remove(t, tensor); }), ErrorCode::kBadInput,
                 {"/models/moe.gguf", tensor, "missing"});
    expect_error(layout_after({.biases = true}, [&](Tensors& t) { remove(t, tensor); }), ErrorCode::kBadInput,
                 {tensor, "missing"});
  }
  expect_error(layout_after({.form = Form::kFused}, [](Tensors& t) { remove(t, "blk.0.ffn_down_exps.weight"); }),
               ErrorCode::kBadInput, {"blk.0.ffn_down_exps.weight", "missing"});
  for (const char* tensor : {"blk.0.ffn_up.0.weight", "blk.0.ffn_gate.3.weight", "blk.0.ffn_down.1.weight"}) {
    expect_error(layout_after({.form = Form::kSeparate}, [&](Tensors& t) { remove(t, tensor); }), ErrorCode::kBadInput,
                 {tensor, "missing", "4 experts"});
  }
}

TEST(Layout, MixedForms) {
  const auto with_tensors_of = [](Form other, const std::string& name) {
    return [=](Tensors& tensors) {
      Tensors more = expert_tensors({.form = other}, numbered_parts());
      tensors.push_back(named(more, name));
    };
  };
  expect_error(layout_after({}, with_tensors_of(Form::kFused, "blk.0.ffn_gate_up_exps.weight")), ErrorCode::kBadInput,
               {"fused and separate"});
  expect_error(layout_after({.form = Form::kFused}, with_tensors_of(Form::kMerged, "blk.0.ffn_up_exps.weight")),
               ErrorCode::kBadInput, {"fused and separate"});
  // A merged gate beside the up and down of the old form.
  expect_error(layout_after({.form = Form::kSeparate}, with_tensors_of(Form::kMerged, "blk.0.ffn_gate_exps.weight")),
               ErrorCode::kBadInput, {"missing"});
}

TEST(Layout, UnsupportedTypes) {
  expect_error(layout_after({}, [](Tensors& t) { retype(t, "blk.0.ffn_up_exps.weight", quant::Type::I32); }),
               ErrorCode::kUnsupported, {"/models/moe.gguf", "blk.0.ffn_up_exps.weight", "I32"});
  expect_error(
      layout_after({.biases = true}, [](Tensors& t) { retype(t, "blk.0.ffn_up_exps.bias", quant::Type::F16); }),
      ErrorCode::kUnsupported, {"blk.0.ffn_up_exps.bias", "F16"});
  expect_error(layout_after({.form = Form::kSeparate},
                            [](Tensors& t) {
                              for (int e = 0; e < 4; e++)
                                retype(t, "blk.0.ffn_up." + std::to_string(e) + ".weight", quant::Type::F64);
                            }),
               ErrorCode::kUnsupported, {"/models/moe.gguf", "blk.0.ffn_up.0.weight", "F64"});
}

// Nobody defined what they would be, so ignoring them would give wrong sums without a word.
TEST(Layout, BiasAndScaleOfAFusedTensor) {
  for (const char* ending : {"bias", "scale"}) {
    const std::string name = std::string("blk.0.ffn_gate_up_exps.") + ending;
    expect_error(layout_after({.form = Form::kFused}, [&](Tensors& t) { t.push_back({.name = name, .ne = {128, 4}}); }),
                 ErrorCode::kUnsupported, {"/models/moe.gguf", name.c_str()});
  }
}

}  // namespace
}  // namespace strata::test
