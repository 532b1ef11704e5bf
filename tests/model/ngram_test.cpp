// Which rows of the n-gram table a token reads, against values of an independent implementation, and what of a file's
// words about the table is refused. Gguf29 (metadata lies about shapes), G10 (a count of 0 as divisor).
#include <fstream>
#include <numeric>

#include <nlohmann/json.hpp>

#include "base/file_sim.h"
#include "model/hparams.h"
#include "model/refusal.h"
#include "support/golden.h"

namespace strata::test {
namespace {

using model::NgramParams;

// The released model's, with constants that are derived.
NgramParams released() {
  NgramParams params;
  params.size = 3;
  params.heads_per_order = 8;
  params.separator = 248044;
  params.multipliers = model::derive_multipliers(3, 248320);
  params.head_rows = model::derive_head_rows(16);
  params.head_offsets.assign(16, 0);
  std::partial_sum(params.head_rows.begin(), params.head_rows.end() - 1, params.head_offsets.begin() + 1);
  return params;
}

std::vector<int64_t> rows_of(const NgramParams& params, const std::vector<int32_t>& ids) {
  std::vector<int64_t> rows(static_cast<size_t>(params.n_heads()));
  model::ngram_rows(params, ids, rows);
  return rows;
}

TEST(NgramRows, DerivedConstantsAreThoseOfTheReleasedModel) {
  const NgramParams params = released();
  EXPECT_EQ(params.multipliers, (std::vector<uint64_t>{23703573157769, 20109073645365, 8052911324071}));
  const std::vector<uint64_t> above = {3, 23, 33, 47, 59, 63, 69, 77, 81, 93, 107, 147, 153, 159, 161, 171};
  for (size_t h = 0; h < above.size(); h++) EXPECT_EQ(params.head_rows[h], 20'000'000 + above[h]) << h;
  EXPECT_EQ(params.head_offsets.back(), 300001275u);
  EXPECT_EQ(params.table_rows(), 320001446u);
}

TEST(NgramRows, AreThoseOfTheVectors) {
  const int32_t e = 248044;
  EXPECT_EQ(rows_of(released(), {100, 200, 300}),
            (std::vector<int64_t>{6129193, 20484628, 57667260, 77728366, 86357215, 109234597, 123551585, 149309416,
                                  172664702, 184433127, 201501905, 227445817, 243341740, 279238932, 284538191,
                                  311036336}));
  const std::vector<int64_t> alone = {5727835,   21884476,  43702108,  66434789,  84094509,  104112171,
                                      134886528, 157314943, 162363667, 189466439, 200618315, 232121522,
                                      258547276, 266199001, 289022207, 305180972};
  EXPECT_EQ(rows_of(released(), {100}), alone);
  EXPECT_EQ(rows_of(released(), {7, e, 100}), alone) << "nothing before a separator counts";
  EXPECT_EQ(rows_of(released(), {100, e, 300}),
            (std::vector<int64_t>{4401500, 35569074, 54889021, 74121415, 88777613, 107793429, 137064387, 157487094,
                                  164417016, 186620958, 218728649, 227273627, 251258918, 276471191, 285147944,
                                  310576508}));
  // A separator in its own place cuts nothing.
  EXPECT_NE(rows_of(released(), {100, 200, e}), rows_of(released(), {7, 200, e}));
}

// What read_ngram() takes of a whole model.
Result<NgramParams> read(const ModelCopy& copy) {
  MemoryFileSystem files;
  files.add_file(kCopyPath, copy.bytes());
  ASSIGN_OR_RETURN(const auto opened, gguf::Model::open(kCopyPath, files));
  model::HParams hp;
  hp.n_layers = 8;
  hp.dim = 64;
  hp.n_streams = 4;
  hp.n_vocab = 512;
  hp.recurrent = {true, true, true, false, true, true, true, false};
  return model::read_ngram(model::Keys(*opened, copy.arch()), hp);
}

TEST(NgramRows, AreThoseOfTheGoldenTrace) {
  const ModelCopy golden("qwen4exp");
  const Result<NgramParams> params = read(golden);
  ASSERT_TRUE(params.ok()) << params.error().message;
  EXPECT_EQ(params->layer, 1);
  std::ifstream in(golden_path("arch/qwen4exp/trace.json"));
  const nlohmann::json trace = nlohmann::json::parse(in);
  int n = 0;
  for (const auto& sequence : trace["sequences"]) {
    std::vector<int32_t> ids;
    for (const auto& position : sequence["positions"]) {
      ids.push_back(position["token"]);
      EXPECT_EQ(rows_of(*params, ids), position["layers"][1]["ple_rows"].get<std::vector<int64_t>>());
      n++;
    }
  }
  EXPECT_EQ(n, 8);
}

// The golden model's multipliers were derived as the released ones, for its vocabulary; its other constants were not.
TEST(NgramRows, MissingConstantsAreDerived) {
  ModelCopy copy("qwen4exp");
  copy.remove("ple.layer_multipliers");
  copy.remove("ple.head_offsets");
  const Result<NgramParams> derived = read(copy), given = read(ModelCopy("qwen4exp"));
  ASSERT_TRUE(derived.ok()) << derived.error().message;
  EXPECT_EQ(derived->multipliers, given->multipliers);
  EXPECT_EQ(derived->head_offsets, given->head_offsets);
  copy.remove("ple.head_vocab_sizes");
  expect_refused(read(copy).error(), {"per_layer_token_embd.weight", "80000"});
}

void set_u64s(ModelCopy& copy, const char* key, const std::vector<uint64_t>& values) {
  ByteString bytes;
  bytes.u32(10).u64(values.size());
  for (const uint64_t value : values) bytes.u64(value);
  copy.set(key, 9, bytes);
}

TEST(NgramMetadata, Gguf29G10LiesAreRefusedByKey) {
  struct Row {
    const char* key;
    std::function<void(ModelCopy&)> change;
  };
  const Row rows[] = {
      {"ple.layers", [](ModelCopy& c) { c.remove("ple.layers"); }},
      {"ple.layers", [](ModelCopy& c) { c.set_i32s("ple.layers", {}); }},
      {"ple.layers", [](ModelCopy& c) { c.set_i32s("ple.layers", {1, 2}); }},
      {"ple.layers", [](ModelCopy& c) { c.set_i32s("ple.layers", {-1}); }},
      {"ple.layers", [](ModelCopy& c) { c.set_i32s("ple.layers", {8}); }},
      {"ple.layers", [](ModelCopy& c) { c.set_i32s("ple.layers", {3}); }},  // a layer of attention
      {"ple.ngram_size", [](ModelCopy& c) { c.set_u32("ple.ngram_size", 1); }},
      {"ple.ngram_size", [](ModelCopy& c) { c.set_u32("ple.ngram_size", 4000000000); }},
      {"ple.heads_per_ngram", [](ModelCopy& c) { c.set_u32("ple.heads_per_ngram", 0); }},
      {"ple.conv_kernel", [](ModelCopy& c) { c.set_u32("ple.conv_kernel", 0); }},
      {"ple.eos_token_id", [](ModelCopy& c) { c.remove("ple.eos_token_id"); }},
      {"ple.layer_multipliers", [](ModelCopy& c) { set_u64s(c, "ple.layer_multipliers", {1, 3}); }},
      {"ple.head_vocab_sizes", [](ModelCopy& c) { set_u64s(c, "ple.head_vocab_sizes", {997, 0, 1013, 1019}); }},
      {"ple.head_vocab_sizes", [](ModelCopy& c) { set_u64s(c, "ple.head_vocab_sizes", {997, UINT64_MAX, 1, 1}); }},
      {"ple.head_offsets", [](ModelCopy& c) { set_u64s(c, "ple.head_offsets", {0, UINT64_MAX, 2006, 3019}); }},
      {"ple.head_offsets", [](ModelCopy& c) { c.set_u32("ple.head_offsets", 0); }},
      {"embedding_length_per_layer_input", [](ModelCopy& c) { c.set_u32("embedding_length_per_layer_input", 0); }},
      // What the table contradicts is refused by the table.
      {"per_layer_token_embd.weight", [](ModelCopy& c) { c.set_u32("embedding_length_per_layer_input", 32); }},
      {"per_layer_token_embd.weight", [](ModelCopy& c) { set_u64s(c, "ple.head_offsets", {0, 997, 2006, 3030}); }},
      {"per_layer_token_embd.weight", [](ModelCopy& c) { c.remove_tensor("per_layer_token_embd.weight"); }},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.key);
    ModelCopy copy("qwen4exp");
    row.change(copy);
    const Result<NgramParams> params = read(copy);
    ASSERT_FALSE(params.ok());
    expect_refused(params.error(), {row.key});
  }
}

}  // namespace
}  // namespace strata::test
