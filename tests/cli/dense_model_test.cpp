// A model without experts through the commands whose subject is where experts lie: they say that there are none.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/models.h"
#include "cli/program.h"
#include "model/dense_copy.h"

namespace strata::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class DenseModel : public testing::Test {
 protected:
  void SetUp() override {
    dense_twin("llama", 0, "llama").write(model());
    write_file(dir_.file("text"), "Once upon a time there was a model without experts.");
  }
  std::string model() const { return dir_.file("dense.gguf"); }

  const TempDir dir_;
};

TEST_F(DenseModel, PlanSaysSo) {
  for (const char* device : {"cpu", "sim:64MiB,64MiB"}) {
    const Outcome plan = strata({"plan", "--device", device, "--experts", "direct", model()});
    EXPECT_TRUE(succeeded(plan)) << plan.err;
    EXPECT_THAT(plan.out, AllOf(HasSubstr("dense.gguf: 3 layers without experts\n"),
                                HasSubstr("\nthe model has no experts\n"), HasSubstr("| weights |")));
    EXPECT_THAT(plan.out, Not(HasSubstr("expert cache")));
    EXPECT_THAT(plan.out, Not(HasSubstr("direct reads")));
  }
}

TEST_F(DenseModel, InspectSaysThatItRuns) {
  const Outcome inspect = strata({"inspect", model()});
  EXPECT_TRUE(succeeded(inspect)) << inspect.err;
  EXPECT_THAT(inspect.out, AllOf(HasSubstr("architecture  llama\n"), HasSubstr("runs here     yes\n")));
  EXPECT_THAT(inspect.out, Not(HasSubstr("\nexperts\n")));
}

TEST_F(DenseModel, RunsAndIsMeasured) {
  const Outcome run = strata({"run", "--model", model(), "-p", "Once", "-n", "4", "--temp", "0", "--stats"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.err, Not(HasSubstr("nan")));
  const Outcome bench = strata({"bench", "--buffer-mib", "4", "--model", model(), "-p", "8", "-n", "4", "-r", "1"});
  EXPECT_EQ(bench.exit_code, 0) << bench.err;
  EXPECT_THAT(bench.out, AllOf(HasSubstr("tg4"), Not(HasSubstr("nan")), Not(HasSubstr("inf"))));
}

TEST_F(DenseModel, HasNoProfile) {
  const Outcome record =
      strata({"profile", "record", "--model", model(), "--file", dir_.file("text"), "--out", dir_.file("profile")});
  EXPECT_TRUE(refused(record, 2, "no experts to record"));
  EXPECT_EQ(names_in(dir_), (std::set<std::string>{"dense.gguf", "text"}));
}

}  // namespace
}  // namespace strata::test
