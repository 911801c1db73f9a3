#!/usr/bin/env bash
# An encoder-decoder of the BART family out of an encoder like BERT, for bartner where no pre-trained one is to be had.
# Source: Rothe, Narayan and Severyn (2020), BERT2BERT: both halves begin as the encoder, what is between them at random.
# Needs: ENCODER, which is one of BERT's architecture: minilm, a name or a folder.
# Differs: nothing has ever been written with it; facebook/bart-base, which bartner was published with, is the better one.
set -euo pipefail
OUTPUT=${OUTPUT:-encoder-decoder}
ENCODER=${ENCODER:-minilm}
LAYERS=${LAYERS:-3} # of the decoder: the encoder's first ones
SEED=${SEED:-1}

if [ -e "$OUTPUT" ]; then echo "$OUTPUT exists." >&2 && exit 2; fi
if ! [[ $LAYERS =~ ^[1-9][0-9]*$ ]]; then echo "LAYERS=$LAYERS is no number of layers, 1 or more." >&2 && exit 2; fi
trap 'rm -rf "$OUTPUT.part"' EXIT
python3 - "$ENCODER" "$LAYERS" "$SEED" "$OUTPUT.part" <<'PYTHON'
import sys

import torch
from transformers import BartConfig, BartModel
from transformers.utils.logging import disable_progress_bar

from crossner_cli.encoders.transformer import TransformerEncoder
from crossner_cli.errors import CrossNERError

disable_progress_bar()
encoder, layers, seed, output = sys.argv[1:]
try:
    loaded, _ = TransformerEncoder.from_pretrained(encoder)
except CrossNERError as error:
    sys.exit(str(error))
bert, tokenizer = loaded.model, loaded.reader.tokenizer
told = bert.config
if told.model_type != "bert" or int(layers) > told.num_hidden_layers:
    sys.exit(f"{encoder} ({told.model_type}, {told.num_hidden_layers} layers) is no encoder like BERT of {layers} layers.")
torch.manual_seed(int(seed))
halves = {
    f"{half}_{name}": value
    for half, depth in (("encoder", told.num_hidden_layers), ("decoder", int(layers)))
    for name, value in (("layers", depth), ("attention_heads", told.num_attention_heads),
                        ("ffn_dim", told.intermediate_size))
}
model = BartModel(BartConfig(
    vocab_size=told.vocab_size, d_model=told.hidden_size, max_position_embeddings=told.max_position_embeddings,
    activation_function=told.hidden_act, dropout=told.hidden_dropout_prob,
    attention_dropout=told.attention_probs_dropout_prob, activation_dropout=0.0, init_std=told.initializer_range,
    pad_token_id=tokenizer.pad_token_id, bos_token_id=tokenizer.cls_token_id, eos_token_id=tokenizer.sep_token_id,
    decoder_start_token_id=tokenizer.cls_token_id, forced_eos_token_id=None, **halves,
))


def copy(to, part):
    to.load_state_dict(part.state_dict())


with torch.no_grad():
    copy(model.shared, bert.embeddings.word_embeddings)
    # BART has no types of tokens, and leaves the first rows of its positions empty.
    places = bert.embeddings.position_embeddings.weight + bert.embeddings.token_type_embeddings.weight[0]
    for half in model.encoder, model.decoder:
        half.embed_positions.weight[-len(places):].copy_(places)
        copy(half.layernorm_embedding, bert.embeddings.LayerNorm)
        for ours, layer in zip(half.layers, bert.encoder.layer):
            attention = layer.attention
            for name, of_bert in (("q", "query"), ("k", "key"), ("v", "value")):
                copy(getattr(ours.self_attn, f"{name}_proj"), getattr(attention.self, of_bert))
            copy(ours.self_attn.out_proj, attention.output.dense)
            copy(ours.self_attn_layer_norm, attention.output.LayerNorm)
            copy(ours.fc1, layer.intermediate.dense)
            copy(ours.fc2, layer.output.dense)
            copy(ours.final_layer_norm, layer.output.LayerNorm)
    read = tokenizer(["Both halves begin as the encoder ."], return_tensors="pt")
    apart = bert.eval()(**read).last_hidden_state - model.eval().encoder(read.input_ids).last_hidden_state
    if apart.abs().max() > 1e-2:
        sys.exit(f"The encoder half says something else than {encoder}, by {apart.abs().max():.3f} at most.")
model.save_pretrained(output)
tokenizer.save_pretrained(output)
PYTHON
mv "$OUTPUT.part" "$OUTPUT"
echo "$OUTPUT reads as $ENCODER does and writes with $LAYERS layers; --method bartner --encoder $OUTPUT"
