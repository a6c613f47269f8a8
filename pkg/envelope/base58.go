package envelope

const base58Alphabet = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"

// base58Encode is base58btc of a short byte string.
func base58Encode(in []byte) string {
	zeros := 0
	for zeros < len(in) && in[zeros] == 0 {
		zeros++
	}
	var digits []byte // base 58, least significant first
	for _, b := range in[zeros:] {
		carry := int(b)
		for i, d := range digits {
			carry += int(d) << 8
			digits[i] = byte(carry % 58)
			carry /= 58
		}
		for ; carry > 0; carry /= 58 {
			digits = append(digits, byte(carry%58))
		}
	}
	out := make([]byte, 0, zeros+len(digits))
	for range zeros {
		out = append(out, base58Alphabet[0])
	}
	for i := len(digits) - 1; i >= 0; i-- {
		out = append(out, base58Alphabet[digits[i]])
	}
	return string(out)
}

// base58Decode reverses base58Encode; false for a character outside the
// alphabet.
func base58Decode(s string) ([]byte, bool) {
	var bytes []byte // base 256, least significant first
	zeros := 0
	for zeros < len(s) && s[zeros] == base58Alphabet[0] {
		zeros++
	}
	for i := zeros; i < len(s); i++ {
		carry := base58Digit(s[i])
		if carry < 0 {
			return nil, false
		}
		for j, b := range bytes {
			carry += int(b) * 58
			bytes[j] = byte(carry)
			carry >>= 8
		}
		for ; carry > 0; carry >>= 8 {
			bytes = append(bytes, byte(carry))
		}
	}
	out := make([]byte, zeros, zeros+len(bytes))
	for i := len(bytes) - 1; i >= 0; i-- {
		out = append(out, bytes[i])
	}
	return out, true
}

func base58Digit(c byte) int {
	for i := range len(base58Alphabet) {
		if base58Alphabet[i] == c {
			return i
		}
	}
	return -1
}
