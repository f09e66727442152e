# Right solutions of train in other styles; see grader/solutions/fragments.py.


# [in_place] Words are lists that are changed in place, and pairs are counted in a plain dict.
def learn_merges(counts, number):
    words = [([bytes([b]) for b in word.encode()], n) for word, n in counts.items()]
    done = []
    for _ in range(number):
        seen = {}
        for word, n in words:
            for i in range(len(word) - 1):
                pair = word[i], word[i + 1]
                seen[pair] = seen.get(pair, 0) + n
        if not seen:
            return done
        top = max(seen.values())
        pair = max(p for p, n in seen.items() if n == top)
        done.append(pair)
        for word, _ in words:
            i = 0
            while i + 1 < len(word):
                if (word[i], word[i + 1]) == pair:
                    word[i : i + 2] = [pair[0] + pair[1]]
                i += 1
    return done
