// Goal: strata quantize writes what the quantisers and mixes say, and refuses the rest before it writes anything.
#include <cmath>
#include <filesystem>

#include <gtest/gtest.h>

#include "cli/commands/commands.h"
#include "cli/help.h"
#include "cli/ids.h"
#include "cli/models.h"
#include "cli/program.h"
#include "gguf/gguf.h"
#include "gguf/quantize/file_types.h"
#include "gguf/writer.h"

namespace strata::test {
namespace {

using Args = std::vector<std::string>;

std::unique_ptr<gguf::Model> open_model(const std::string& path) {
  auto model = gguf::Model::open(path, real_file_system());
  if (!model.ok()) {
    ADD_FAILURE() << model.error().message;
    std::abort();
  }
  return std::move(*model);
}

class QuantizeCommandTest : public ::testing::Test {
 protected:
  // A model of one tensor, named for a kind without rules of its own.
  std::string write_model(const std::vector<float>& values, std::vector<uint64_t> ne) {
    gguf::Writer writer("x");
    writer.add_tensor("blk.0.attn_q.weight", quant::Type::F32, std::move(ne), std::as_bytes(std::span(values)));
    const std::string path = dir_.file("in.gguf");
    EXPECT_TRUE(writer.write(path).ok());
    return path;
  }

  std::string out() const { return dir_.file("out.gguf"); }

  TempDir dir_;
};

TEST_F(QuantizeCommandTest, GivesTheGoldenBytes) {
  const std::vector<float> source = read_f32(golden_path("quant/rtn.src.f32.bin"));
  const std::string in = write_model(source, {512, 5});
  for (const char* name : {"Q1_0", "Q2_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "MXFP4", "NVFP4", "TQ1_0",
                           "TQ2_0"}) {
    ASSERT_TRUE(succeeded(strata({"quantize", in, out(), name, "--pure"}))) << name;
    const auto model = open_model(out());
    const gguf::TensorInfo& tensor = model->tensors().front();
    EXPECT_STREQ(quant::info(tensor.type).name, name);
    std::vector<uint8_t> bytes(tensor.bytes);
    ASSERT_TRUE(model->read(tensor, 0, std::as_writable_bytes(std::span(bytes))).ok());
    EXPECT_TRUE(bytes == read_bytes(golden_path(std::string("quant/rtn.") + name + ".bin"))) << name;
  }
}

// A model that another program would run: it does here, and thinks nearly what the original thinks.
TEST_F(QuantizeCommandTest, MakesModelsThatRun) {
  const auto logprobs = [&](const std::string& model) {
    write_file(dir_.file("ids.txt"), "1 2 3 5 8 13 21 34 55 89 144 233 377");
    EXPECT_TRUE(succeeded(strata({"eval", "logprobs", model, "--ids-file", dir_.file("ids.txt"), "--out",
                                  dir_.file("out.f32")})));
    return read_f32(dir_.file("out.f32"));
  };
  const std::vector<float> original = logprobs(tiny_model());
  const struct { const char* type; double limit; } cases[] = {{"F32", 0}, {"Q8_0", 0.002}, {"Q4_K_M", 0.5}};
  for (const auto& [type, limit] : cases) {
    ASSERT_TRUE(succeeded(strata({"quantize", tiny_model(), out(), type}))) << type;
    const std::vector<float> made = logprobs(out());
    ASSERT_EQ(made.size(), original.size());
    double divergence = 0;
    for (size_t i = 0; i < made.size(); i++) divergence += std::exp(original[i]) * (original[i] - made[i]);
    EXPECT_LE(divergence / 13, limit) << type;
  }
}

TEST_F(QuantizeCommandTest, SaysWhatItWrote) {
  const std::string in = write_model(std::vector<float>(1024, 0.5f), {256, 4});
  const Outcome outcome = strata({"quantize", in, out(), "q8_0", "--threads", "3"});
  EXPECT_TRUE(succeeded(outcome));
  EXPECT_EQ(outcome.out, out() + ": 1 of 1 tensor converted, 4 KiB -> 1.1 KiB\n");
  EXPECT_EQ(*open_model(out())->require_int("general.file_type", 0, 99), 7);

  const std::string narrow = write_model(std::vector<float>(96, 0.5f), {96, 1, 1});
  EXPECT_EQ(strata({"quantize", narrow, out(), "Q8_0"}).out, out() + ": 0 of 1 tensor converted, 384 B -> 384 B\n");
}

TEST_F(QuantizeCommandTest, SaysWhereRowsDoNotFit) {
  const std::string in = write_model(std::vector<float>(192, 0.5f), {96, 2});
  const Outcome outcome = strata({"quantize", in, out(), "Q4_K", "--log-level", "info"});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_NE(outcome.out.find("1 tensor got another type than asked for"), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.err.find("'blk.0.attn_q.weight': rows of 96 do not fit Q4_K, Q5_0 is written"), std::string::npos)
      << outcome.err;
}

TEST_F(QuantizeCommandTest, RefusesWhatCannotBe) {
  const std::string in = write_model(std::vector<float>(512, 0.5f), {256, 2});
  const struct { Args args; const char* text; int exit_code = 2; } cases[] = {
      {{}, "write strata quantize IN OUT TYPE"},
      {{in}, "takes 3 arguments, but 1 was given; write strata quantize IN OUT TYPE"},
      {{in, out()}, "2 were given; write strata quantize IN OUT TYPE"},
      {{in, "--type", "Q8_0"}, "takes 2 arguments beside these flags, but 1 was given"},
      {{"--model", in, "--out", out()}, "quantize needs a type (--type); write strata quantize IN OUT TYPE"},
      {{"--out", out(), "--type", "Q8_0"}, "quantize needs a model (--model)"},
      {{"--model", in, "--type", "Q8_0"}, "quantize needs a file to write (--out)"},
      {{"x", "--model", in, "--out", out(), "--type", "Q8_0"}, "takes 0 arguments beside these flags"},
      {{in, out(), "Q8_0", "x"}, "4 were given"},
      {{in, out(), "Q9_0"}, "unknown type 'Q9_0'; there are F32, "},
      {{in, out(), ""}, "quantize needs a type (--type)"},
      {{in, out(), "IQ2_XS"}, "no quantiser for IQ2_XS"},
      {{in, in, "Q8_0"}, "it would replace"},
      {{in, dir_.path(), "Q8_0"}, "is not a file"},
      {{dir_.file("none.gguf"), out(), "Q8_0"}, "none.gguf"},
      {{in, dir_.file("none/out.gguf"), "Q8_0"}, "cannot create", 1},
      {{golden_path("models/moe-a-q8_0.gguf"), out(), "Q4_K_M"}, "--allow-requantize"},
      {{in, out(), "Q8_0", "--out", out()}, "the out is given twice"},
      {{in, out(), "Q8_0", "--threads", "0"}, "--threads: '0' is not allowed"},
      {{in, out(), "Q8_0", "--temp", "1"}, "unknown flag '--temp'"},
  };
  for (const auto& c : cases) {
    Args args = {"quantize"};
    args.insert(args.end(), c.args.begin(), c.args.end());
    EXPECT_TRUE(refused(strata(args), c.exit_code, c.text)) << ::testing::PrintToString(args);
    EXPECT_EQ(names_in(dir_), std::set<std::string>{"in.gguf"});
  }
}

// Arguments are what no flag gives.
TEST_F(QuantizeCommandTest, TakesFlagsAndArgumentsTogether) {
  const std::string in = write_model(std::vector<float>(512, 0.5f), {256, 2});
  ASSERT_TRUE(succeeded(strata({"quantize", in, out(), "Q8_0"})));
  const std::string wanted = read_file(out());
  for (const Args& args : {Args{in, "--out", dir_.file("x"), "--type", "Q8_0"},
                           Args{"--model", in, dir_.file("x"), "Q8_0"},
                           Args{in, dir_.file("x"), "--type=Q8_0"}}) {
    Args all = {"quantize"};
    all.insert(all.end(), args.begin(), args.end());
    EXPECT_TRUE(succeeded(strata(all))) << ::testing::PrintToString(args);
    EXPECT_EQ(read_file(dir_.file("x")), wanted);
    std::filesystem::remove(dir_.file("x"));
  }
}

TEST_F(QuantizeCommandTest, StandardOutputTakesTheModelAndNothingElse) {
  const std::string in = write_model(std::vector<float>(512, 0.5f), {256, 2});
  ASSERT_TRUE(succeeded(strata({"quantize", in, out(), "Q8_0"})));
  const Outcome outcome = strata({"quantize", in, "/dev/stdout", "Q8_0"});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.out, read_file(out()));
  EXPECT_EQ(outcome.err.find("/dev/stdout: 1 of 1 tensor converted"), 0u) << outcome.err;
}

TEST_F(QuantizeCommandTest, NamesTheTensorOfABadValue) {
  std::vector<float> values(512, 0.5f);
  values[300] = NAN;
  const std::string in = write_model(values, {256, 2});
  EXPECT_TRUE(refused(strata({"quantize", in, out(), "Q4_0"}), 2,
                      "tensor 'blk.0.attn_q.weight' cannot be quantised, its value 300 is infinite or not a number"));
  EXPECT_EQ(names_in(dir_), std::set<std::string>{"in.gguf"});
}

TEST_F(QuantizeCommandTest, RequantisesWhenAllowed) {
  const std::string in = golden_path("models/moe-a-q8_0.gguf");
  ASSERT_TRUE(succeeded(strata({"quantize", in, out(), "IQ4_XS", "--allow-requantize"})));
  const auto made = open_model(out()), reference = open_model(golden_path("models/moe-a-iq4_xs.gguf"));
  for (const gguf::TensorInfo& tensor : reference->tensors()) {
    EXPECT_EQ(made->find_tensor(tensor.name)->type, tensor.type) << tensor.name;
  }
}

TEST(QuantizeHelp, NamesEveryType) {
  const std::string help = cli::command_help(cli::kQuantizeCommand);
  for (const gguf::FileType& file : gguf::file_types()) {
    EXPECT_NE(help.find(std::string(" ") + file.name), std::string::npos) << file.name;
  }
}

}  // namespace
}  // namespace strata::test
