#include "frontend/refused_operators.h"

namespace rtx::onnx {
namespace {

struct Reason {
  std::string_view domain, prefix;  // of the operator's name; a whole name where it ends with a blank
  std::string_view reason;
};

constexpr std::string_view microsoft = "com.microsoft";
constexpr std::string_view draws = "random numbers are not supported";
constexpr std::string_view recurs = "recurrent layers are not supported";
constexpr std::string_view optional = "optional values are not supported";
constexpr std::string_view texts = "tensors of strings are not supported";
constexpr std::string_view searches =
    "a search that runs the model many times is not supported: compile its decoder alone";
constexpr std::string_view complex = "Fourier transforms are not supported";
constexpr std::string_view data_sized = "the size of its output depends on data";
constexpr std::string_view one_provider =
    "fused form of one execution provider of onnxruntime; take the model before that optimisation";

constexpr Reason reasons[] = {
    {"", "Scan ", "loops over an axis are not supported"},
    {"", "SequenceMap ", "bodies over sequences are not supported"},
    {"", "BitCast ", "reading the bits of a tensor as another type is not supported"},
    {"", "Det ", "determinants are not supported"},
    {"", "NonMaxSuppression ", data_sized},
    {"", "RoiAlign ", "regions of interest are not supported"},
    {"", "MaxRoiPool ", "regions of interest are not supported"},
    {"", "RNN ", recurs},
    {"", "GRU ", recurs},
    {"", "LSTM ", recurs},
    {"", "Random", draws},
    {"", "Multinomial ", draws},
    {"", "Bernoulli ", draws},
    {"", "DFT ", complex},
    {"", "STFT ", complex},
    {"", "String", texts},
    {"", "RegexFullMatch ", texts},
    {"", "TfIdfVectorizer ", texts},
    {"", "LabelEncoder ", texts},
    {"", "Optional", optional},
    {"", "ImageDecoder ", "decoding of images is not supported"},
    {microsoft, "BeamSearch ", searches},
    {microsoft, "GreedySearch ", searches},
    {microsoft, "Sampling ", searches},
    {microsoft, "WhisperBeamSearch ", searches},
    {microsoft, "NhwcConv ", one_provider},
    {microsoft, "MatMulNBitsMlp ", one_provider},
    {microsoft, "MatMulNBitsQkv ", one_provider},
    {microsoft, "RemovePadding ", data_sized},
};

bool matches(std::string_view prefix, std::string_view op_type) {
  if (prefix.ends_with(' ')) return prefix.substr(0, prefix.size() - 1) == op_type;
  return op_type.starts_with(prefix);
}

}  // namespace

std::string_view refusal_of(std::string_view domain, std::string_view op_type) {
  for (const Reason& row : reasons)
    if (row.domain == domain && matches(row.prefix, op_type)) return row.reason;
  return {};
}

}  // namespace rtx::onnx
