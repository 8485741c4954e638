package lyrebird;

import java.util.Map;
import org.apache.lucene.analysis.TokenStream;
import org.apache.lucene.analysis.miscellaneous.ASCIIFoldingFilter;
import org.elasticsearch.common.settings.Settings;
import org.elasticsearch.index.analysis.AbstractTokenFilterFactory;
import org.elasticsearch.index.analysis.NormalizingTokenFilterFactory;
import org.elasticsearch.index.analysis.TokenFilterFactory;
import org.elasticsearch.indices.analysis.AnalysisModule.AnalysisProvider;
import org.elasticsearch.plugins.AnalysisPlugin;
import org.elasticsearch.plugins.Plugin;

/** The filter `asciifolding`, which full distributions have and the small one lacks: Lucene's own, as theirs is. */
public class FoldingPlugin extends Plugin implements AnalysisPlugin {
    @Override
    public Map<String, AnalysisProvider<TokenFilterFactory>> getTokenFilters() {
        return Map.of("asciifolding", (index, environment, name, settings) -> new Folding(name, settings));
    }

    private static final class Folding extends AbstractTokenFilterFactory implements NormalizingTokenFilterFactory {
        private final boolean original;

        Folding(String name, Settings settings) {
            super(name, settings);
            original = settings.getAsBoolean("preserve_original", false);
        }

        @Override
        public TokenStream create(TokenStream tokens) {
            return new ASCIIFoldingFilter(tokens, original);
        }

        @Override
        public TokenStream normalize(TokenStream tokens) {
            return new ASCIIFoldingFilter(tokens, false);
        }
    }
}
